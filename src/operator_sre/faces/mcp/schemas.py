"""What each tool takes and tells: arguments, documents, and the schemas that clients check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import msgspec

from operator_protocols.domain.action import TIMEOUT_S_MAX, Result, Urgency
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.workflow import WorkflowState
from operator_protocols.errors import UsageError
from operator_sre.app.health import SubjectHealth
from operator_sre.app.marks import FOREIGN, is_plain_name
from operator_sre.app.story import lines_of
from operator_sre.codec import to_json
from operator_sre.contract.schemas import Maybe, Shape, document_schema, fields_of
from operator_sre.operations.operation import ENVELOPE, struct_for

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry
    from operator_protocols.domain.ticket import Ticket
    from operator_sre.app.hub import Proposed
    from operator_sre.operations.operation import Operation

__all__ = [
    "ACTION",
    "HEALTH",
    "HELD_BY",
    "TICKET",
    "ActionResult",
    "ExplainDenial",
    "NextAction",
    "Nothing",
    "ProposeAction",
    "RecommendPatch",
    "RunId",
    "RunTimeline",
    "ShowHealth",
    "ShowTicket",
    "ValidateProject",
    "arguments_of",
    "output_schema",
    "read",
    "result_document",
    "schema_of",
    "shape_of",
    "story_document",
    "ticket_document",
]

NUMBER_MAX = 2**63 - 1
Number = Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX, description="Only entries after this one.")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=100)]
Word = Annotated[str, msgspec.Meta(max_length=200)]
Run = Annotated[str, msgspec.Meta(min_length=1, max_length=100, description="The id of a run.")]
MaybeRun = Annotated[str, msgspec.Meta(max_length=100, description="The id of a run.")]
Text = Annotated[str, msgspec.Meta(max_length=4000)]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all of them have: nothing is taken that is not known."""


class Nothing(Asked, frozen=True):
    """No arguments."""


class RunId(Asked, frozen=True):
    """Which run."""

    run_id: Run


class ValidateProject(Asked, frozen=True):
    """Which folder."""

    project_dir: Annotated[
        str, msgspec.Meta(min_length=1, max_length=4096, description="An absolute path.")
    ]


class ExplainDenial(Asked, frozen=True):
    """A run, or an action that is not asked for yet."""

    run_id: MaybeRun = ""
    action: Annotated[
        str, msgspec.Meta(max_length=4000, description="A command line, or a tool of the run.")
    ] = ""


class RecommendPatch(Asked, frozen=True):
    """What shall be allowed."""

    request: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=2000, description="In plain words: allow host NAME ..."
        ),
    ]
    risk_level: Annotated[
        str,
        msgspec.Meta(
            pattern="^(|low|medium|high)$",
            description="Set to high to allow broad or private access.",
        ),
    ] = ""


class RunTimeline(Asked, frozen=True):
    """Which run, and from where on."""

    run_id: Run
    after_seq: Seq = 0


class NextAction(Asked, frozen=True):
    """A run, or all there is."""

    run_id: MaybeRun = ""


class ShowTicket(Asked, frozen=True):
    """Which ticket, and how much of its story."""

    number: Number
    after_seq: Seq = 0
    limit: Limit = 50


class ShowHealth(Asked, frozen=True):
    """Which subject; all without a name."""

    subject: Word = ""


class ProposeAction(Asked, frozen=True):
    """A command and why. It is not allowed by asking."""

    command: Annotated[
        str, msgspec.Meta(min_length=1, max_length=20_000, description="One command line.")
    ]
    reasoning: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=4000,
            description="The reason, shown to the people who approve it.",
        ),
    ]
    expected: Annotated[str, msgspec.Meta(max_length=4000, description="The expected effect.")] = ""
    subject: Annotated[
        str, msgspec.Meta(max_length=200, description="The subject; empty for this machine.")
    ] = ""
    target: Annotated[
        str, msgspec.Meta(max_length=200, description="The target within the subject.")
    ] = ""
    cwd: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] = "/"
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_S_MAX)] = 120.0
    urgency: Annotated[
        Urgency, msgspec.Meta(description="How soon it should be done; approvers see it.")
    ] = Urgency.SOON


class ActionResult(Asked, frozen=True):
    """Which action, and how long to wait for it."""

    action_id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=30)] = 0.0


def arguments_of(operation: Operation) -> type[msgspec.Struct]:
    """What the tool of an operation takes: its request, with the limit of a page of this face."""
    names = [parameter.name for parameter in operation.parameters]
    made = struct_for("mcp", operation.request.__name__, operation, names)
    if operation.page is None or "limit" not in made.__struct_fields__:
        return made
    return msgspec.defstruct(
        made.__name__, [("limit", Limit, 20)], bases=(made,), frozen=True, kw_only=True
    )


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of arguments, an object at its root."""
    (_, parts) = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = dict(parts.pop(kind.__name__))
    for name in ("title", "description"):
        own.pop(name, None)
    return {**own, **({"$defs": parts} if parts else {})}


def read(kind: type[Any], given: object) -> Any:
    """The arguments of a call; UsageError names the invalid argument."""
    try:
        return msgspec.convert(given or {}, kind, strict=True)
    except (msgspec.ValidationError, ValueError) as error:
        known = ", ".join(kind.__struct_fields__) or "none"
        raise UsageError(
            f"Invalid arguments: {str(error)[:300]}.",
            next_step=f"Arguments: {known}.",
        ) from None


Schema = dict[str, Any]
# Which worker holds a ticket is of no use to a model.
HELD_BY = ("epoch", "worker")
# What every answer has.
_TOLD = {"untrusted": str, "left_out": Maybe(bool)}
_TICKET = fields_of(Ticket, *HELD_BY)
_SENTENCE = {"seq": int, "at": datetime, "kind": Kind, "run": str, "by": str, "told": str}
TICKET: Shape = {"ticket": _TICKET, "story": [_SENTENCE]}
HEALTH: Shape = {
    "at": datetime,
    "health": Health,
    "fine": bool,
    "subjects": [{**fields_of(SubjectHealth), "tickets": list[int]}],
}
ACTION: Shape = {
    "action_id": str,
    "state": WorkflowState,
    "reason": str,
    "result": Maybe(Result),
    "approval_id": Maybe(str),
    "note": Maybe(str),
}


def shape_of(operation: Operation) -> Shape:
    """What the tool of an operation answers: its result without what the tool hides."""
    tool = operation.tool
    assert tool is not None
    found: dict[str, Shape] = {}
    for name, kind in fields_of(operation.result, *ENVELOPE).items():
        is_list = str(kind).startswith("tuple[")
        row: Any = get_args(kind)[0] if is_list else kind
        if tool.picks and is_list:
            row = {path.rpartition(".")[2]: _kind_at(row, path) for path in tool.picks}
            row |= {"next_step": str} if tool.next_step else {}
        elif tool.hides and isinstance(row, type):
            row = fields_of(row, *tool.hides)
        found[name] = [row] if is_list else row
    return found


def _kind_at(kind: type[Any], path: str) -> Any:
    """The type of a field or a property of a row."""
    for name in path.split("."):
        found = getattr(kind, name, None)
        computed = isinstance(found, property) and get_type_hints(found.fget)["return"]
        kind = computed or fields_of(kind)[name]
    return kind


def output_schema(title: str, shape: Shape) -> Schema:
    """The schema of an answer of this shape, once text from outside stands between its marks."""
    whole = document_schema(title, (shape, _TOLD))
    parts = whole.pop("$defs", {})
    kept = {name: part for name, part in parts.items() if "enum" not in part}
    definitions = {name: _mark(part, "", parts) for name, part in kept.items()}
    return {**_mark(whole, "", parts), **({"$defs": definitions} if definitions else {})}


def _mark(schema: Schema, name: str, parts: Mapping[str, Schema]) -> Schema:
    """What stands under this name: a word is one of ours only where words of ours stand."""
    part = parts.get(schema.get("$ref", "").rpartition("/")[2], schema)
    if "enum" in part or "format" in part:
        return part if is_plain_name(name) else {"type": "string"}
    found = dict(schema)
    if name in FOREIGN:
        return {"type": "object"}
    if "properties" in found:
        inside = found["properties"].items()
        found["properties"] = {field: _mark(part, field, parts) for field, part in inside}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _mark(found[key], name, parts)
    if "anyOf" in found:
        found["anyOf"] = [_mark(option, name, parts) for option in found["anyOf"]]
    return found


_WAITS = "Pending approval by a person. Poll with action_result."
_PENDING = "Queued for an agent of this home (operator up). Poll with action_result."


def ticket_document(ticket: Ticket) -> dict[str, Any]:
    """A ticket without who holds it at the moment."""
    document: dict[str, Any] = to_json(ticket)
    return {name: it for name, it in document.items() if name not in HELD_BY}


def story_document(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Entries as sentences; entries without a sentence are left out."""
    rows = []
    for entry in entries:
        lines = [
            *(detail for line in lines_of(entry) for detail in (line.text, *line.details)),
        ]
        if lines:
            rows.append(
                {
                    "seq": entry.seq,
                    "at": to_json(entry.at),
                    "kind": entry.kind.value,
                    "run": entry.run,
                    "by": entry.actor.id,
                    "told": "\n".join(lines),
                }
            )
    return rows


def result_document(found: Proposed) -> dict[str, Any]:
    """Where an action stands, and its result once there is one."""
    action = found.action
    document: dict[str, Any] = {
        "action_id": action.action,
        "state": action.state.value,
        "reason": action.reason,
    }
    if action.result is not None:
        document["result"] = to_json(action.result)
    if found.approval:
        return {**document, "approval_id": found.approval, "note": _WAITS}
    return document if action.state.over else {**document, "note": _PENDING}
