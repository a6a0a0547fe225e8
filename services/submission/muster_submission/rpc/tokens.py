"""TokenService: tokens for applications. The one service that asks for none itself."""

from __future__ import annotations

from typing import Any, Final

from muster.api.v1 import access_pb2 as api
from muster.api.v1 import access_pb2_grpc
from muster_chassis.rpc import caller
from muster_submission.handlers.applications import LIFETIME, Exchange

PUBLIC: Final = frozenset({"/muster.api.v1.TokenService/IssueToken"})
"""The methods that are called without a token."""


class TokenRoom(access_pb2_grpc.TokenServiceServicer):
    """The servicer."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def IssueToken(self, request: api.IssueTokenRequest, context: Any) -> api.IssueTokenResponse:
        """A token for a secret, or for a refresh token."""
        if request.refresh_token:
            issued = await self._exchange.by_refresh(request.refresh_token, caller())
        else:
            issued = await self._exchange.by_secret(request.application, request.secret, caller())
        return api.IssueTokenResponse(access_token=issued.access, expires_in=LIFETIME, refresh_token=issued.refresh)
