"""JSON Schema of all documents for programs, derived from their types.

Every field that a schema names is there, unless it may be left out; unknown ones are allowed,
because a later minor version may add some.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec.inspect as seen

from operator_protocols.domain.category import NextAction
from operator_protocols.errors import OperatorError
from operator_sre.contract.documents import as_document, inner_of
from operator_sre.contract.messages import (
    SCHEMA_VERSION,
    ConfirmationRequirement,
    ExplainPolicyDenialResponse,
    Message,
    RecommendPolicyPatchResponse,
    RunStatus,
    SummarizeRunResponse,
    ValidateAgentProjectResponse,
)

__all__ = [
    "VERSION",
    "Maybe",
    "OneOf",
    "Shape",
    "broken",
    "check_document",
    "document_schema",
    "fields_of",
]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
VERSION = {"type": "string", "pattern": r"^1\.\d+\.\d+$"}
# Fields by their names, a list as [items], a message, or any type that has a JSON form; a document
# may also be a tuple of such, whose fields stand side by side.
Shape = Any
Schema = dict[str, Any]
_MOMENT = {"type": "string", "format": "date-time"}
_MESSAGES = {str: "string", int: "integer", bool: "boolean"}
_PLAIN = {
    seen.StrType: {"type": "string"},
    seen.BoolType: {"type": "boolean"},
    seen.IntType: {"type": "integer"},
    seen.FloatType: {"type": "number"},
    seen.NoneType: {"type": "null"},
    seen.DateTimeType: _MOMENT,
    seen.AnyType: {},
}


@dataclass(frozen=True, slots=True)
class Maybe:
    """A field that may be left out."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class OneOf:
    """What has one of several shapes."""

    shapes: tuple[Shape, ...]


def fields_of(kind: type[Any], *without: str) -> dict[str, Shape]:
    """The fields of a type without a name of its own."""
    return {name: it for name, it in get_type_hints(kind).items() if name not in without}


def document_schema(title: str, shape: Shape) -> Schema:
    """The schema of a document that says its version, with what is inside of it as definitions."""
    parts = _Parts()
    shapes = shape.shapes if isinstance(shape, OneOf) else (shape,)
    bodies = []
    for part in shapes:
        body = _body(part, parts)
        properties = dict(sorted({**body["properties"], "schema_version": VERSION}.items()))
        required = sorted({*body["required"], "schema_version"})
        bodies.append({**body, "properties": properties, "required": required})
    several = {"type": "object", "anyOf": bodies}
    defs = {"$defs": dict(sorted(parts.schemas.items()))} if parts.schemas else {}
    body = bodies[0] if len(bodies) == 1 else several
    return {"$schema": DIALECT, "title": title, **body, **defs}


@dataclass(slots=True)
class _Parts:
    """Definitions that a schema refers to, each under a name of its own."""

    kinds: dict[str, type[Any]] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)

    def name(self, kind: type[Any]) -> tuple[str, bool]:
        """What it is called here, and whether it is still to be described."""
        known = self.kinds.get(kind.__name__, kind)
        name = kind.__name__ if known is kind else f"{kind.__module__}.{kind.__name__}"
        is_new = name not in self.kinds
        self.kinds[name] = kind
        return name, is_new


def _body(shape: Shape, parts: _Parts) -> Schema:
    """A whole document: a message, fields, or several of these in one."""
    if isinstance(shape, tuple):
        bodies = [_body(inner, parts) for inner in shape]
        merged = {name: it for body in bodies for name, it in body["properties"].items()}
        return _object(merged, [name for body in bodies for name in body["required"]])
    if isinstance(shape, type) and issubclass(shape, Message):
        return _message(shape, parts)
    return _of_shape(shape, parts)


def _object(properties: Mapping[str, Schema], needed: Sequence[str], text: str = "") -> Schema:
    return {
        **({"description": text} if text else {}),
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "required": sorted(needed),
    }


def _of_shape(shape: Shape, parts: _Parts) -> Schema:
    if isinstance(shape, Maybe):
        return _of_shape(shape.shape, parts)
    if isinstance(shape, OneOf):
        return {"anyOf": [_of_shape(inner, parts) for inner in shape.shapes]}
    if isinstance(shape, list):
        return {"type": "array", "items": _of_shape(shape[0], parts)}
    if isinstance(shape, Mapping):
        properties = {name: _of_shape(inner, parts) for name, inner in shape.items()}
        return _object(
            properties, [name for name, inner in shape.items() if not isinstance(inner, Maybe)]
        )
    if isinstance(shape, type) and issubclass(shape, Message):
        return _of_message(shape, parts)
    return _of_type(seen.type_info(shape), parts)


def _of_type(kind: seen.Type, parts: _Parts) -> Schema:
    """A type as the codec writes it: every field is there, whether it has a default or not."""
    if type(kind) in _PLAIN:
        return dict(_PLAIN[type(kind)])
    if isinstance(kind, seen.UnionType):
        return {"anyOf": [_of_type(member, parts) for member in kind.types]}
    if isinstance(kind, seen.CollectionType):
        return {"type": "array", "items": _of_type(kind.item_type, parts)}
    if isinstance(kind, seen.TupleType):
        items = [_of_type(item_type, parts) for item_type in kind.item_types]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if isinstance(kind, seen.DictType):
        return {"type": "object", "additionalProperties": _of_type(kind.value_type, parts)}
    if isinstance(kind, seen.LiteralType):
        return {"enum": list(kind.values)}
    assert isinstance(kind, seen.EnumType | seen.DataclassType | seen.StructType), kind
    name, is_new = parts.name(kind.cls)
    reference = {"$ref": f"#/$defs/{name}"}
    if not is_new:
        return reference
    text = inspect.cleandoc(kind.cls.__doc__ or "")
    if isinstance(kind, seen.EnumType):
        words = [cl.value for cl in kind.cls]
        parts.schemas[name] = {"description": text, "type": "string", "enum": words}
        return reference
    properties = {item.encode_name: _of_type(item.type, parts) for item in kind.fields}
    config = getattr(kind.cls, "__struct_config__", None)
    left_out = config is not None and config.omit_defaults
    needed = [item.encode_name for item in kind.fields if item.required or not left_out]
    parts.schemas[name] = _object(properties, needed, text)
    return reference


def _message(kind: type[Message], parts: _Parts) -> Schema:
    hints = get_type_hints(kind)
    known = [field for field in fields(kind) if field.name != "unknown"]
    needed = [
        field.name for field in known if field.default is MISSING or field.name == "schema_version"
    ]
    properties = {field.name: _of_message(hints[field.name], parts) for field in known}
    if "schema_version" in properties:
        properties["schema_version"] = VERSION
    return _object(properties, needed, inspect.cleandoc(kind.__doc__ or ""))


def _of_message(hint: Any, parts: _Parts) -> Schema:
    """A field of a message: what holds its default is left out, so that none of them is null."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (inner for inner in get_args(hint) if inner is not types.NoneType)
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _of_message(get_args(hint)[0], parts)}
    if hint is datetime:
        return dict(_MOMENT)
    if issubclass(hint, StrEnum):
        return {"type": "string", "enum": [inner.value for inner in hint]}
    if issubclass(hint, Message):
        name, is_new = parts.name(hint)
        if is_new:
            parts.schemas[name] = _message(hint, parts)
        return {"$ref": f"#/$defs/{name}"}
    return {"type": _MESSAGES[hint]}


# Messages inside other messages; the whole answers are checked anyway.
_PROMISING = frozenset({ConfirmationRequirement})
_WATCHED: dict[type[Message], tuple[str, ...]] = {}


def check_document(message: Message) -> dict[str, Any]:
    """Its document, once it was seen to be what the contract says."""
    document = as_document(message)
    if wrong := list(broken(message)):
        raise OperatorError(
            f"The answer does not keep the contract: {'; '.join(wrong)}.",
            next_step="This is a fault of Operator; please report it.",
        )
    return document


def broken(message: Message) -> Iterator[str]:
    """Every promise that a message, or one inside of it, does not keep."""
    if getattr(message, "schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        yield f"schema_version is not {SCHEMA_VERSION}"
    match message:
        case ConfirmationRequirement() if bool(message.confirmation_id) != (
            message.requires_confirmation
        ):
            yield "confirmation_id is there exactly when a confirmation is required"
        case ValidateAgentProjectResponse() if message.ready == bool(message.issues):
            yield "a project is ready exactly when it has no issue"
        case SummarizeRunResponse() if (message.status is RunStatus.FAILED) != (
            message.error_category is not None
        ):
            yield "error_category is there exactly when the run failed"
        case ExplainPolicyDenialResponse() if not _reviews(message.next_action):
            yield "after a denial the policy is reviewed"
        case RecommendPolicyPatchResponse():
            if not message.confirmation.requires_confirmation:
                yield "a patch always requires confirmation"
            if not _reviews(message.next_action):
                yield "after a proposal the patch is reviewed"
        case _:
            pass
    for name in _promising_fields(type(message)):
        value = getattr(message, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Message):
                yield from broken(part)


def _promising_fields(kind: type[Message]) -> tuple[str, ...]:
    """The fields in which a message may be that has promises to keep."""
    if kind not in _WATCHED:
        inner = inner_of(kind)
        _WATCHED[kind] = tuple(
            name for name, held in inner if held in _PROMISING or _promising_fields(held)
        )
    return _WATCHED[kind]


def _reviews(action: NextAction) -> bool:
    return action is NextAction.REVIEW_POLICY_PATCH
