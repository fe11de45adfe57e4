"""What each tool can be asked, with limits; unknown arguments are refused."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from operator_protocols.domain.action import TIMEOUT_S_MAX
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import UsageError

__all__ = [
    "ActionResult",
    "ExplainDenial",
    "ListRuns",
    "ListTickets",
    "NextAction",
    "Nothing",
    "ProposeAction",
    "RecommendPatch",
    "RunId",
    "RunTimeline",
    "SearchHistory",
    "ShowHealth",
    "ShowTicket",
    "ValidateProject",
    "read",
    "schema_of",
]

NUMBER_MAX = 2**63 - 1
Number = Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX, description="Only what came behind it.")]
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
        str, msgspec.Meta(pattern="^(|low|medium|high)$", description="high: it is meant wide.")
    ] = ""


class RunTimeline(Asked, frozen=True):
    """Which run, and from where on."""

    run_id: Run
    after_seq: Seq = 0


class NextAction(Asked, frozen=True):
    """A run, or all there is."""

    run_id: MaybeRun = ""


class ListTickets(Asked, frozen=True):
    """Which tickets; without words, all."""

    states: Annotated[tuple[TicketState, ...], msgspec.Meta(max_length=len(TicketState))] = ()
    subject: Word = ""
    severity: Severity | None = None
    text: Annotated[str, msgspec.Meta(max_length=200, description="In summary or reason.")] = ""
    after: Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX, description="The next page.")] = 0
    limit: Limit = 20


class ShowTicket(Asked, frozen=True):
    """Which ticket, and how much of its story."""

    number: Number
    after_seq: Seq = 0
    limit: Limit = 50


class ListRuns(Asked, frozen=True):
    """How many runs, in front of which."""

    before: MaybeRun = ""
    limit: Limit = 20


class ShowHealth(Asked, frozen=True):
    """Which subject; all without a name."""

    subject: Word = ""


class SearchHistory(Asked, frozen=True):
    """Words, and where to look for them."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=500, description="Any words.")]
    ticket: Number | None = None
    run_id: MaybeRun = ""
    since: Annotated[str, msgspec.Meta(max_length=40, description="30m, 12h, 7d, a time.")] = ""
    before: Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX, description="The next page.")] = 0
    limit: Limit = 20


class ProposeAction(Asked, frozen=True):
    """A command and why. It is not allowed by asking."""

    command: Annotated[
        str, msgspec.Meta(min_length=1, max_length=20_000, description="One command line.")
    ]
    reasoning: Annotated[
        str, msgspec.Meta(min_length=1, max_length=4000, description="Why; people read it.")
    ]
    expected: Annotated[
        str, msgspec.Meta(max_length=4000, description="What should be different after it.")
    ] = ""
    subject: Annotated[
        str, msgspec.Meta(max_length=200, description="What it is about; else this machine.")
    ] = ""
    target: Annotated[str, msgspec.Meta(max_length=200, description="Which part of it.")] = ""
    cwd: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] = "/"
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_S_MAX)] = 120.0


class ActionResult(Asked, frozen=True):
    """Which action, and how long to wait for it."""

    action_id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=30)] = 0.0


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of arguments, an object at its root."""
    (_, parts) = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = dict(parts.pop(kind.__name__))
    for name in ("title", "description"):
        own.pop(name, None)
    return {**own, **({"$defs": parts} if parts else {})}


def read(kind: type[Any], given: object) -> Any:
    """Arguments as they were told; UsageError names the one that makes no sense."""
    try:
        return msgspec.convert(given or {}, kind, strict=True)
    except (msgspec.ValidationError, ValueError) as error:
        known = ", ".join(kind.__struct_fields__) or "none"
        raise UsageError(
            f"The arguments are not as they should be: {str(error)[:300]}.",
            next_step=f"Arguments: {known}.",
        ) from None
