"""The OpenAPI document of every route."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from operator_protocols.domain.token import Role
from operator_protocols.errors import OperatorError
from operator_sre.app import answers
from operator_sre.contract import SCHEMA_VERSION, messages
from operator_sre.contract.documents import from_document
from operator_sre.contract.editions import edition_of, problem_document
from operator_sre.faces.api import actions, events, response
from operator_sre.faces.api.operations import documents
from operator_sre.faces.api.response import JSON, answer, status_of
from operator_sre.faces.api.routes import (
    ANSWERS,
    ASKS,
    Door,
    Endpoint,
    ask_long,
    home_of,
    opens,
    read_body,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["METHODS", "document_of", "router"]

router = APIRouter(route_class=Door, prefix="/v1/methods")
Method = Callable[..., Any]
# By path: the role, the request, the answer, and the function. A project may lie in any folder of
# the machine, so only an admin may have one validated; a recommended patch requests a confirmation,
# which is more than reading.
METHODS: dict[str, tuple[Role, type, type, Method]] = {
    "validate-project": (
        Role.ADMIN,
        messages.ValidateAgentProjectRequest,
        messages.ValidateAgentProjectResponse,
        answers.validate_project,
    ),
    "summarize-run": (
        Role.VIEWER,
        messages.SummarizeRunRequest,
        messages.SummarizeRunResponse,
        answers.summarize_run,
    ),
    "explain-failure": (
        Role.VIEWER,
        messages.ExplainFailureRequest,
        messages.ExplainFailureResponse,
        answers.explain_failure,
    ),
    "explain-denial": (
        Role.VIEWER,
        messages.ExplainPolicyDenialRequest,
        messages.ExplainPolicyDenialResponse,
        answers.explain_denial,
    ),
    "recommend-patch": (
        Role.APPROVER,
        messages.RecommendPolicyPatchRequest,
        messages.RecommendPolicyPatchResponse,
        answers.recommend_patch,
    ),
    "run-timeline": (
        Role.VIEWER,
        messages.GetRunTimelineRequest,
        messages.GetRunTimelineResponse,
        answers.run_timeline,
    ),
    "next-action": (
        Role.VIEWER,
        messages.NextActionRequest,
        messages.NextActionResponse,
        answers.next_action,
    ),
}


def _endpoint(path: str, kind: type, method: Method) -> Endpoint:
    async def serve(request: Request) -> Response:
        body = await read_body(request, dict[str, Any])
        message: Any = from_document(kind, body)
        home, edition = home_of(request), edition_of(message.schema_version)
        try:
            if inspect.iscoroutinefunction(method):
                response = await method(home, message)
            else:
                response = await ask_long(home, method, message)
            return answer(await ask_long(home, answers.document_in, response, edition))
        except OperatorError as error:
            if edition == SCHEMA_VERSION:
                raise
            return answer(problem_document(error), status=status_of(error))

    serve.__name__ = path.replace("-", "_")
    serve.__doc__ = (method.__doc__ or "").strip().splitlines()[0]
    return cast("Endpoint", serve)


for _path, (_role, _asks, _answers, _method) in METHODS.items():
    opens(
        router,
        "POST",
        f"/{_path}",
        role=_role,
        asks=_asks,
        answers=_answers,
        errors=[404],
    )(_endpoint(_path, _asks, _method))


VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+$"
REF = "#/components/schemas/{name}"
_MODULES = (
    actions,
    response,
    events,
    messages,
)
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Requests with the same key and body run once and get the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
_RETRY = {"Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}}
_CHALLENGE = {"WWW-Authenticate": {"schema": {"type": "string"}}}


def document_of(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1, generated from the routes."""
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    document = get_openapi(
        title="Operator",
        version=messages.SCHEMA_VERSION,
        openapi_version="3.1.0",
        description="Tickets, runs, approvals and the ledger of one operator home.",
        routes=app.routes,
    )
    wanted: set[str] = set()
    for path in document["paths"].values():
        for method, operation in path.items():
            # FastAPI does not know types that are not its own models.
            if asks := operation.pop(ASKS, ""):
                wanted.add(asks)
                content = {JSON: {"schema": {"$ref": REF.format(name=asks)}}}
                operation["requestBody"] = {"required": True, "content": content}
            if method == "post":
                operation.setdefault("parameters", []).append(_KEY)
            if "security" not in operation and operation.get("operationId") == "alive":
                operation["security"] = []
            for code, answered in operation["responses"].items():
                name, media = answered.pop(ANSWERS, ""), answered.pop("media", JSON)
                if name == "str" or media != JSON:
                    kind = "object" if name == "dict" else "string"
                    answered["content"] = {media: {"schema": {"type": kind}}}
                elif name:
                    wanted.add(name)
                    answered["content"] = {JSON: {"schema": {"$ref": REF.format(name=name)}}}
                if code == "429":
                    answered["headers"] = _RETRY
                if code == "401":
                    answered["headers"] = _CHALLENGE
    known = {
        name: getattr(module, name)
        for module in _MODULES
        for name in module.__all__
        if isinstance(getattr(module, name), type)
    } | documents()
    kinds = [known[name] for name in sorted({*wanted, "EventDocument"})]
    _, components = msgspec.json.schema_components(kinds, ref_template=REF)
    for schema in components.values():
        # A docstring keeps its indent up to Python 3.12.
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
        version = schema.get("properties", {}).get("schema_version")
        if version is None:
            continue
        version["pattern"] = VERSION
        # An answer always says its version; a request may.
        if not schema.get("title", "").endswith("Request"):
            schema["required"] = [*schema.get("required", []), "schema_version"]
    schemas = dict(sorted(components.items()))
    document["components"] = {
        "schemas": schemas,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    document["security"] = [{"token": []}]
    assert len(routes) <= sum(len(path) for path in document["paths"].values())
    return document
