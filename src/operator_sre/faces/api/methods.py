"""The seven methods of the contract: a request as a document in, a response as a document out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from fastapi import APIRouter, Request, Response

from operator_protocols.domain.token import Role
from operator_sre.app import answers
from operator_sre.contract import messages
from operator_sre.contract.documents import as_document, from_document
from operator_sre.faces.api.response import answer
from operator_sre.faces.api.routes import Door, Endpoint, ask_long, home_of, opens, read_body

__all__ = ["METHODS", "router"]

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
        message: Any = from_document(kind, await read_body(request, dict[str, Any]))
        home = home_of(request)
        if inspect.iscoroutinefunction(method):
            response = await method(home, message)
        else:
            response = await ask_long(home, method, message)
        return answer(as_document(response))

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
