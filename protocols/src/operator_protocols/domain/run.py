"""A Run is one agent's work on one Ticket. It does no I/O: it yields what it wants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.budget import Budget, Spent
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.change import Change
from operator_protocols.domain.diagnosis import Diagnosis, RankedHypothesis
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import ToolSpec

__all__ = [
    "LATE",
    "UNAVAILABLE",
    "Act",
    "Answer",
    "Ask",
    "Briefing",
    "Budget",
    "Call",
    "Comment",
    "Diagnose",
    "Escalate",
    "Finish",
    "LogTail",
    "Misuse",
    "Prove",
    "RunRecord",
    "Spent",
    "Step",
    "Trend",
    "Turn",
    "Want",
]

# Key in the data of a result: it did not start, because another change of the subject ran first.
LATE = "late"
# The same of a refusal that holds for this action now: another action may be tried.
UNAVAILABLE = "unavailable"
_NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done in this Run, in order, with the ledger entry that records it."""

    want: Act | Diagnose | Misuse | Prove
    result: Result | Proof | None
    seq: int | None = None

    @property
    def late(self) -> bool:
        """It did not start, because another change of the subject ran first."""
        result = self.result
        if not isinstance(result, Result) or result.outcome is not Outcome.CANCELLED:
            return False
        return result.data.get(LATE) is True


@dataclass(frozen=True, slots=True)
class Trend:
    """One reading of a target over time: first, last, lowest and highest value."""

    target: str
    reading: str
    looks: int
    first: float
    last: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LogTail:
    """The newest lines of a target's log, oldest first."""

    target: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """A person's comment on a ticket. It is data, not an instruction."""

    by: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Briefing:
    """Everything an agent is given. Text from outside is data, not instructions.

    `health` is the health of the ticket's own violations in `observation`, and `broken` has the
    keys of all that is broken there. `trends` and `logs` are of the last half hour. `comments` are
    the newest that people made, oldest first. `changes` are the differences between the last
    observation before the failure and the newest one.
    """

    ticket: Ticket
    targets: tuple[Target, ...]
    observation: Observation
    health: Health
    tools: tuple[ToolSpec, ...]
    causes: tuple[Cause, ...]
    notes: str = ""
    observation_seq: int | None = None
    trends: tuple[Trend, ...] = ()
    logs: tuple[LogTail, ...] = ()
    broken: frozenset[str] = frozenset()
    comments: tuple[Comment, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnose:
    """Submits the Diagnosis; required before the first change."""

    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Finish:
    """The agent believes that the incident is resolved. A Proof decides.

    With a `target` it believes so only of this one: then other targets of the ticket are next.
    """

    summary: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class Escalate:
    """The agent gives up and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Misuse:
    """An invalid call: nothing runs, and the agent gets the reason."""

    name: str
    arguments: str
    why: str


Call = Action | Diagnose | Escalate | Finish | Misuse


@dataclass(frozen=True, slots=True)
class Answer:
    """One turn of a model: its reasoning and its calls, in order.

    `by` names the model that answered if another model was asked, and `note` says why. `hypotheses`
    are sorted by probability, the most probable first.
    """

    reasoning: str
    calls: tuple[Call, ...]
    spent: Spent = _NOTHING
    by: str = ""
    note: str = ""
    hypotheses: tuple[RankedHypothesis, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer with the results of its calls, in order; calls that never started are missing."""

    answer: Answer
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the Model for its next turn; `left` is what remains of the Budget.

    `steps` are the steps of all `turns`, for models that do not need the conversation.
    """

    briefing: Briefing
    steps: tuple[Step, ...]
    left: Budget
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """Judge, permit and execute an Action."""

    action: Action


@dataclass(frozen=True, slots=True)
class Prove:
    """Check until the invariants hold or the deadline passes.

    `arrival` means that nothing ran before; only a Run knows that, never a model. `hasty` does not
    wait for broken invariants, because the agent does not claim that they hold. With a `target`,
    only its invariants are to be proven.
    """

    claim: str
    arrival: bool = False
    hasty: bool = False
    target: str = ""


Want = Ask | Act | Diagnose | Prove
