"""/api/v1/token and the keys by which its tokens are verified. Asked without a token."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.rpc import Caller
from muster_submission.handlers.applications import LIFETIME
from muster_submission.rest.answers import answer
from muster_submission.rest.bodies import read_object
from muster_submission.rest.errors import BadBody
from muster_submission.rest.operation import Answer, Body, Operation, Shape, refusal
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import bad

_TEXT: Final = {"type": "string"}
_LARGEST_BODY: Final = 64 << 10  # it is read before anything is known of the caller
_GRANTS: Final = ("app_token", "refresh_token")
TOKEN_REQUEST: Final = Shape(
    "TokenRequest",
    {
        "type": "object",
        "description": "What a token is asked for with. Members are found without regard to case.",
        "required": ["grantType"],
        "properties": {
            "grantType": {"type": "string", "enum": list(_GRANTS), "description": "What is exchanged."},
            "appID": {"type": "string", "description": "The application's id, or its name."},
            "appSecret": {"type": "string", "description": "Its secret."},
            "refreshToken": {"type": "string", "description": "With grantType refresh_token: a refresh token."},
        },
    },
)
TOKEN_RESPONSE: Final = Shape(
    "TokenResponse",
    {
        "type": "object",
        "description": "A token.",
        "required": ["accessToken", "expiresIn", "refreshToken", "tokenType"],
        "properties": {
            "accessToken": {"type": "string", "description": "The token, for `Authorization: Bearer`."},
            "expiresIn": {"type": "integer", "description": "Seconds for which it counts."},
            "refreshToken": {"type": "string", "description": "Good for another token, for a day."},
            "tokenType": {"type": "string", "const": "Bearer"},
        },
    },
)
KEYS: Final = Shape(
    "KeySet",
    {
        "type": "object",
        "description": "Public keys as RFC 7517 has them.",
        "required": ["keys"],
        "properties": {"keys": {"type": "array", "items": {"type": "object"}}},
    },
)


def operations(parts: Parts) -> list[Operation]:
    """What is served."""
    return [
        Operation(
            "POST",
            "/api/v1/token",
            "create_token",
            "Tokens",
            "A token for an application",
            Tokens(parts).create,
            {200: Answer("The token.", TOKEN_RESPONSE), 401: refusal("The id, the secret or the token is wrong.")},
            body=Body(TOKEN_REQUEST),
            public=True,
        ),
        Operation(
            "GET",
            "/.well-known/jwks.json",
            "get_keys",
            "Tokens",
            "The keys that sign tokens",
            Tokens(parts).keys,
            {200: Answer("The keys.", KEYS)},
            since="muster",
            public=True,
        ),
    ]


class Tokens:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._exchange = parts.gates.exchange
        self._signing = parts.gates.signing

    async def create(self, request: Request) -> Response:
        """A token for a secret, or for a refresh token."""
        given = _texts(await read_object(request, _LARGEST_BODY))
        who = Caller("", channel="rest", peer=request.client.host if request.client else "")
        match given.get("granttype"):
            case "app_token":
                ref, secret = _needed(given, "appid", "appID"), _needed(given, "appsecret", "appSecret")
                issued = await self._exchange.by_secret(ref, secret, who)
            case "refresh_token":
                issued = await self._exchange.by_refresh(_needed(given, "refreshtoken", "refreshToken"), who)
            case other:
                raise _wrong("grantType", f"is {str(other)[:40]!r}; it is one of {', '.join(_GRANTS)}")
        body = {"accessToken": issued.access, "expiresIn": LIFETIME, "refreshToken": issued.refresh}
        return answer(body | {"tokenType": "Bearer"}, headers={"Cache-Control": "no-store"})

    async def keys(self, request: Request) -> Response:
        """The public keys: the one that signs, and the one before it."""
        return answer({"keys": [key.jwk for key in await self._signing.keys()]})


def _texts(body: dict[str, Any]) -> dict[str, str]:
    """The members by name without case. Clients write appID, AppId and app_id."""
    found: dict[str, str] = {}
    for name, value in body.items():
        plain = name.lower().replace("_", "")
        if plain in found:
            raise _wrong(name[:80], "stands twice in the body, in two spellings")
        if value is not None and not isinstance(value, str):
            raise _wrong(name[:80], "is no text")
        found[plain] = value or ""
    return found


def _needed(given: dict[str, str], plain: str, name: str) -> str:
    found = given.get(plain, "")
    if not found:
        raise _wrong(name, "is missing")
    return found


def _wrong(name: str, why: str) -> BadBody:
    return bad(name, f"{name} {why}")
