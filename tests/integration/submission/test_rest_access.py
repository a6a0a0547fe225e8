"""Tokens, applications, rules and the audit over REST, judged by the vendor's models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from muster.api.v1 import tenancy_pb2
from muster_chassis.settings import AuthMode
from tests.integration.submission.test_applications import first_application, first_of
from tests.support.doors import Door, door, key
from tests.support.sdk import judge

RULES = "/api/v1/authorization/access-rules"


async def _token(here: Door, path: Path) -> dict[str, str]:
    client, secret = first_of(path)
    asked = {"grantType": "app_token", "AppId": client, "AppSecret": secret}
    answer = await here.http.post("/api/v1/token", json=asked)
    assert answer.status_code == 200, answer.text
    judge("create_token", answer.json())
    assert answer.headers["cache-control"] == "no-store"
    return {"Authorization": f"Bearer {answer.json()['accessToken']}"}


async def _of_application(here: Door, admin: dict[str, str], name: str) -> tuple[str, dict[str, str]]:
    made = await here.http.post("/api/v1/apps", json={"name": name}, headers=admin)
    assert made.status_code == 201, made.text
    judge("create_application", made.json())
    asked = {"grantType": "app_token", "appID": made.json()["id"], "appSecret": made.json()["secret"]}
    token = await here.http.post("/api/v1/token", json=asked)
    return made.json()["id"], {"Authorization": f"Bearer {token.json()['accessToken']}"}


def _error(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    judge("error", answer.json())
    found: dict[str, Any] = answer.json()
    return found


async def _an_application_gets_a_role_uses_it_and_loses_it(here: Door, admin: dict[str, str]) -> None:
    http = here.http
    asked = tenancy_pb2.CreateProjectRequest(name="vision", idempotency_key=key())
    await here.tenancy.CreateProject(asked, metadata=(("authorization", admin["Authorization"]),))
    found = await http.get("/api/v1/org-unit/projects", headers=admin)
    project = found.json()["projects"][0]["id"]

    client, robot = await _of_application(here, admin, "robot")
    assert (await http.get("/api/v1/org-unit/projects", headers=robot)).json()["projects"] == []
    _error(await http.get(f"/api/v1/org-unit/projects/{project}", headers=robot), 404)
    rule = {"subjectId": client, "subjectType": "app", "roleId": 2, "scopeId": project, "scopeType": "project"}
    given = await http.post(RULES, json=rule, headers=admin)
    assert given.status_code == 201, given.text
    judge("create_access_rule", given.json())
    assert (given.json()["roleName"], given.json()["scopeName"]) == ("researcher", "vision")
    seen = await http.get(f"/api/v1/org-unit/projects/{project}", headers=robot)
    assert seen.status_code == 200
    refused = _error(await http.delete(f"/api/v1/org-unit/projects/{project}", headers=robot), 403)
    assert refused["message"] == "You do not have sufficient permissions."
    assert {one["resourceType"] for one in judged(await http.get(_MAY, headers=robot), "get_permissions")} >= {
        "workloads",
        "project",
    }
    rules = judged(
        await http.get(RULES, params={"subjectType": "app", "scopeType": "project"}, headers=admin),
        "get_access_rules",
    )
    assert [one["id"] for one in rules["accessRules"]] == [given.json()["id"]]
    judged(await http.get(f"{RULES}/{given.json()['id']}", headers=admin), "get_access_rule")
    assert judged(await http.get(f"{RULES}/count", headers=admin), "count_access_rules") == {"count": 2}
    assert (await http.delete(f"{RULES}/{given.json()['id']}", headers=admin)).status_code == 204
    _error(await http.get(f"/api/v1/org-unit/projects/{project}", headers=robot), 404)
    await _ends(here, admin, client, robot)


_MAY = "/api/v1/authorization/permissions"


def judged(answer: httpx.Response, operation: str) -> Any:
    """The body of an answer that the vendor's model takes."""
    assert answer.status_code == 200, answer.text
    judge(operation, answer.json())
    return answer.json()


async def _ends(here: Door, admin: dict[str, str], client: str, robot: dict[str, str]) -> None:
    """An application is switched off, gets another secret, goes; the audit knows all of it and no secret."""
    http, at = here.http, f"/api/v1/apps/{client}"
    assert {one["name"] for one in judged(await http.get("/api/v1/apps", headers=admin), "get_applications")} == {
        "admin",
        "robot",
    }
    off = judged(await http.patch(at, json={"enabled": False}, headers=admin), "update_application")
    assert off["enabled"] is False
    _error(await http.get(_MAY, headers=robot), 401)
    judged(await http.patch(at, json={"enabled": True}, headers=admin), "update_application")
    _error(await http.get(_MAY, headers=robot), 401)  # a token from before it was off never counts again
    judged(await http.get(at, headers=admin), "get_application")
    fresh = judged(await http.post(f"{at}/secret", headers=admin), "regenerate_application_secret")["secret"]
    assert (await http.delete(at, headers=admin)).status_code == 204
    _error(await http.get(at, headers=admin), 404)
    await here.app.access_parts.refusals.flush()
    lines = judged(await http.get("/api/v1/audit", params={"limit": 500}, headers=admin), "get_audit")
    assert {line["action"] for line in lines} >= {
        "tokens.issue",
        "applications.write",
        "access.write",
        "projects.create",
    }
    assert {line["error"] for line in lines} >= {None, "PERMISSION_DENIED"}
    assert {line["context"]["channel"] for line in lines} >= {"rest"}
    assert fresh not in str(lines)
    failed = judged(
        await http.get("/v1/k8s/audit", params={"success": "false", "sourceId": client}, headers=admin), "get_audit"
    )
    assert "PERMISSION_DENIED" in {line["error"] for line in failed} <= {"PERMISSION_DENIED", "NOT_FOUND"}
    assert (
        judged(await http.get("/api/v1/audit", params={"start": "2100-01-01T00:00:00Z"}, headers=admin), "get_audit")
        == []
    )


async def _bad_questions_get_their_code_and_change_nothing(here: Door, admin: dict[str, str], path: Path) -> None:
    http = here.http
    client, secret = first_of(path)
    for body in (
        {},
        {"grantType": "password", "username": "a", "password": "b"},
        {"grantType": "app_token", "appID": client},
        {"grantType": "app_token", "appID": client, "AppId": client, "appSecret": secret},
        {"grantType": "app_token", "appID": 7, "appSecret": secret},
        {"grantType": "refresh_token"},
    ):
        _error(await http.post("/api/v1/token", json=body), 400)
    wrong = {"grantType": "app_token", "appID": client, "appSecret": "wrong"}
    unknown = wrong | {"appID": "nobody"}
    first, second = [_error(await http.post("/api/v1/token", json=body), 401) for body in (wrong, unknown)]
    assert first == second
    good = {"subjectId": "anna", "subjectType": "user", "roleId": 1, "scopeId": "1001", "scopeType": "tenant"}
    for change in (
        {"roleId": 99},
        {"roleId": True},
        {"subjectType": "robot"},
        {"scopeType": "world"},
        {"extra": 1},
    ):
        assert _error(await http.post(RULES, json=good | change, headers=admin), 400)["violations"]
    _error(await http.post(RULES, json=good | {"scopeType": "project", "scopeId": "999"}, headers=admin), 404)
    _error(await http.post("/api/v1/apps", json={"name": "'; DROP TABLE audit; --"}, headers=admin), 400)
    _error(await http.post("/api/v1/apps", json={"name": "admin"}, headers=admin), 409)
    for number in ("0", "-1", "x", "9" * 40):
        _error(await http.get(f"{RULES}/{number}", headers=admin), 404)
    for query in ({"limit": "0"}, {"limit": "501"}, {"start": "x"}, {"success": "maybe"}, {"action": "a\x00"}):
        _error(await http.get("/api/v1/audit", params=query, headers=admin), 400)
    for header in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}):
        _error(await http.get("/api/v1/apps", headers=header), 401)
    assert len(judged(await http.get("/api/v1/authorization/roles", headers=admin), "get_roles")) == 6
    judged(await http.get("/api/v1/authorization/roles/1", headers=admin), "get_role")
    _error(await http.get("/api/v1/authorization/roles/7", headers=admin), 404)
    keys = (await http.get("/.well-known/jwks.json")).json()["keys"]
    assert [sorted(one) for one in keys] == [["alg", "crv", "kid", "kty", "use", "x", "y"]]
    rules = judged(await http.get(RULES, headers=admin), "get_access_rules")
    assert rules["totalRecords"] == 1


async def test_access_over_rest(database: Any, kafka: str, tmp_path: Path) -> None:
    path = first_application(tmp_path)
    async with door(database, kafka, auth=AuthMode.JWT, auth_first_applications=(path,)) as here:
        admin = await _token(here, path)
        await _an_application_gets_a_role_uses_it_and_loses_it(here, admin)
        await _bad_questions_get_their_code_and_change_nothing(here, admin, path)
