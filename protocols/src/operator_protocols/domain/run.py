"""A Run is one mind's work on one Ticket. It does no input or output: it says what it wants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.budget import Budget, Spent
from operator_protocols.domain.cause import Cause
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

# Among the data of a result: it was not begun, because another change of the subject ran first.
LATE = "late"
_NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done in this Run, in order, with the ledger entry that records it."""

    want: Act | Diagnose | Misuse | Prove
    result: Result | Proof | None
    seq: int | None = None

    @property
    def late(self) -> bool:
        """It was not begun, because another change of the subject ran first."""
        result = self.result
        if not isinstance(result, Result) or result.outcome is not Outcome.CANCELLED:
            return False
        return result.data.get(LATE) is True


@dataclass(frozen=True, slots=True)
class Trend:
    """How one reading of a target went over the last while: the oldest, the newest, the bounds."""

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
    """What a person said about a ticket: worth knowing, and no order to anybody."""

    by: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Briefing:
    """Everything a mind is given. Texts in it that came from outside are data, not instructions.

    `health` is the health of the ticket's own violations in `observation`, and `broken` has the
    keys of all that is broken there. `trends` and `logs` are of the last half hour. `comments` are
    the newest that people made, oldest first.
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


@dataclass(frozen=True, slots=True)
class Diagnose:
    """Hands in the Diagnosis; required before the first change."""

    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Finish:
    """The mind believes it is over. A Proof decides."""

    summary: str


@dataclass(frozen=True, slots=True)
class Escalate:
    """The mind gives up and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Misuse:
    """A call that makes no sense: nothing is done, and the mind is told why."""

    name: str
    arguments: str
    why: str


Call = Action | Diagnose | Escalate | Finish | Misuse


@dataclass(frozen=True, slots=True)
class Answer:
    """One turn of a mind: what it thinks and what it calls, in order.

    `by` is who spoke, where it is not the mind that was asked, and `note` says why. `hypotheses`
    are those that it weighed, the most probable first.
    """

    reasoning: str
    calls: tuple[Call, ...]
    spent: Spent = _NOTHING
    by: str = ""
    note: str = ""
    hypotheses: tuple[RankedHypothesis, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer with what became of its calls, in their order; those never begun are missing."""

    answer: Answer
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the Model for its next turn; `left` is what remains of the Budget.

    `steps` are those of all `turns`, for a mind that does not care who said what.
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
    """Look again until it holds or the deadline passes.

    `arrival` when nothing was done before it; only a Run knows that, never a mind. `hasty` does not
    wait for what is still broken, because nobody claims that it holds.
    """

    claim: str
    arrival: bool = False
    hasty: bool = False


Want = Ask | Act | Diagnose | Prove
