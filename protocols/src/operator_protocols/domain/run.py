"""A Run is one mind's work on one Ticket. It does no input or output: it says what it wants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import ToolSpec

__all__ = [
    "Act",
    "Answer",
    "Ask",
    "Briefing",
    "Budget",
    "Call",
    "Diagnose",
    "Escalate",
    "Finish",
    "Prove",
    "RunRecord",
    "Step",
    "Want",
]


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one Run; reaching one ends in escalation with all that is known."""

    turns_max: int = 40
    commands_max: int = 60
    seconds_max: float = 900.0
    attempts_max: int = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done in this Run, in order, with the ledger entry that records it."""

    want: Act | Diagnose | Prove
    result: Result | Proof | None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Briefing:
    """Everything a mind is given. Texts in it that came from outside are data, not instructions.

    `health` is the health of the ticket's own violations in `observation`.
    """

    ticket: Ticket
    targets: tuple[Target, ...]
    observation: Observation
    health: Health
    tools: tuple[ToolSpec, ...]
    causes: tuple[Cause, ...]
    notes: str = ""
    observation_seq: int | None = None


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


Call = Action | Diagnose | Finish | Escalate


@dataclass(frozen=True, slots=True)
class Answer:
    """One turn of a mind: what it thinks and what it calls, in order."""

    reasoning: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the Model for its next turn; `left` is what remains of the Budget."""

    briefing: Briefing
    steps: tuple[Step, ...]
    left: Budget


@dataclass(frozen=True, slots=True)
class Act:
    """Judge, permit and execute an Action."""

    action: Action


@dataclass(frozen=True, slots=True)
class Prove:
    """Look again until it holds or the deadline passes."""

    claim: str


Want = Ask | Act | Diagnose | Prove


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A Run as it is remembered: running, completed, failed or stopped."""

    id: str
    ticket: int
    model: str
    state: str
    started_at: datetime
    finished_at: datetime | None
    summary: str
