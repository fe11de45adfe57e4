"""JSON Schema of every message, made from its fields. Unknown fields are allowed: they may come."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from operator_sre.contract.messages import (
    ExplainFailureRequest,
    ExplainFailureResponse,
    ExplainPolicyDenialRequest,
    ExplainPolicyDenialResponse,
    GetRunTimelineRequest,
    GetRunTimelineResponse,
    Message,
    NextActionRequest,
    NextActionResponse,
    RecommendPolicyPatchRequest,
    RecommendPolicyPatchResponse,
    SummarizeRunRequest,
    SummarizeRunResponse,
    ValidateAgentProjectRequest,
    ValidateAgentProjectResponse,
)

__all__ = ["METHODS", "schema_of"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
VERSION = {"type": "string", "pattern": r"^1\.\d+\.\d+$"}
_PLAIN = {str: "string", int: "integer", bool: "boolean"}

# The seven methods by their names, each with what is asked and what is told.
METHODS: dict[str, tuple[type[Message], type[Message]]] = {
    "validate_agent_project": (ValidateAgentProjectRequest, ValidateAgentProjectResponse),
    "summarize_run": (SummarizeRunRequest, SummarizeRunResponse),
    "explain_failure": (ExplainFailureRequest, ExplainFailureResponse),
    "explain_policy_denial": (ExplainPolicyDenialRequest, ExplainPolicyDenialResponse),
    "recommend_policy_patch": (RecommendPolicyPatchRequest, RecommendPolicyPatchResponse),
    "get_run_timeline": (GetRunTimelineRequest, GetRunTimelineResponse),
    "next_action": (NextActionRequest, NextActionResponse),
}


def schema_of(kind: type[Message]) -> dict[str, Any]:
    """The schema of a message, with those inside of it as definitions."""
    inner: dict[str, Any] = {}
    body = _object(kind, inner)
    return {
        "$schema": DIALECT,
        "title": kind.__name__,
        **body,
        "$defs": dict(sorted(inner.items())),
    }


def _object(kind: type[Message], inner: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    known = [one for one in fields(kind) if one.name != "unknown"]
    needed = [one.name for one in known if one.default is MISSING or one.name == "schema_version"]
    shapes = {one.name: _shape(hints[one.name], inner) for one in known}
    if "schema_version" in shapes:
        shapes["schema_version"] = VERSION
    told = (kind.__doc__ or "").strip()
    return {
        "description": told,
        "type": "object",
        "properties": dict(sorted(shapes.items())),
        "required": sorted(needed),
    }


def _shape(hint: Any, inner: dict[str, Any]) -> dict[str, Any]:
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (one for one in get_args(hint) if one is not types.NoneType)
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _shape(get_args(hint)[0], inner)}
    if hint is datetime:
        return {"type": "string", "format": "date-time"}
    if issubclass(hint, StrEnum):
        return {"type": "string", "enum": [one.value for one in hint]}
    if issubclass(hint, Message):
        if hint.__name__ not in inner:
            inner[hint.__name__] = {}
            inner[hint.__name__] = _object(hint, inner)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {"type": _PLAIN[hint]}
