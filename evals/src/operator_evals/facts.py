"""What was seen of a trial, raw: nothing in here is a score, and every score is made of this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from operator_evals.campaign import Scenario
from operator_evals.generated.observed import GeneratedFacts
from operator_protocols.domain.budget import Spent

__all__ = [
    "CommandFact",
    "DiagnosisFact",
    "Moments",
    "ProofFact",
    "Reading",
    "Snapshot",
    "TicketFact",
    "TrialFacts",
    "TrialState",
    "TurnFact",
]

Reading = float | int | str | bool | None


class TrialState(StrEnum):
    """How far a trial came; only what is DONE is scored."""

    DONE = "done"
    INVALID = "invalid"  # the rig was never well, or the fault cannot be done here
    FAILED = "failed"  # the harness itself did not get to an end


@dataclass(frozen=True, slots=True)
class Moments:
    """When it happened, in seconds of one monotonic clock since the trial began; None: never.

    `resolved` is when the last ticket came to an end, `ended` when the trial ended.
    """

    started: float = 0.0
    healthy: float | None = None
    fault_injected: float | None = None
    ticket_created: float | None = None
    resolved: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class TicketFact:
    """A ticket as it stood at the end."""

    id: int
    state: str
    target: str
    invariants: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TurnFact:
    """One turn of a run. `by` is the model, or the reasoner that took the turn over.

    `calls` counts the calls of the turn that were valid.
    """

    seq: int
    at_s: float
    ticket: int
    by: str
    calls: int = 0


@dataclass(frozen=True, slots=True)
class DiagnosisFact:
    """A diagnosis: the cause, all hypotheses (cause, target), best first, and who made it.

    `component` is the probability of its target: the sum over all its hypotheses there.
    """

    seq: int
    at_s: float
    ticket: int
    cause: str
    target: str
    summary: str = ""
    confidence: float = 0.0
    hypotheses: tuple[tuple[str, str], ...] = ()
    by: str = ""
    component: float = 0.0


@dataclass(frozen=True, slots=True)
class CommandFact:
    """One proposed action: the verdict of the gate, and the result.

    `text` is the command or call without its reasoning, so that equal texts are the same action.
    `changes` is what the gate thinks: anything that it does not call SAFE. `inside` is False for
    what was done to something that is not a part of the subject. `reading` is what a probe of the
    built-in reasoner showed, such as `process=dead`: with the fault it is a count for a likelihood.
    """

    seq: int
    at_s: float
    ticket: int
    tool: str
    text: str
    target: str
    level: str
    risk: str
    changes: bool
    inside: bool = True
    ran: bool = False
    outcome: str = ""
    exit_code: int | None = None
    duration_s: float = 0.0
    asked: bool = False  # a person had to answer
    undo: bool = False  # it rolled back an earlier action
    destructive: bool = False
    reasoning: str = ""
    by: str = ""
    reading: str = ""


@dataclass(frozen=True, slots=True)
class ProofFact:
    """A check after a change: whether it held, and what it found newly broken."""

    seq: int
    at_s: float
    ticket: int
    held: bool
    harm: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every target's readings at one moment, and what was broken then, as `invariant@target`."""

    at_s: float
    readings: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """All that is known of one trial.

    `still` is what the fault's oracle found wrong when the last ticket had ended, and
    `still_after_hold` what it found a while later; "" is right. `acknowledged` are writes that
    the rig has promised to keep, `lost` those of them that are surely gone when the variant has
    ended, and `unread` the writes that could not be read then. `model` is the model of the variant;
    `turn_facts` say which turns it took, and is empty in facts that were recorded without.
    """

    campaign: str
    key: str
    scenario: Scenario
    variant: str
    seed: int
    state: TrialState
    started_at: str = ""  # RFC 3339, for people: times are counted in `moments`
    why: str = ""
    hit: str = ""
    moments: Moments = field(default_factory=Moments)
    tickets: tuple[TicketFact, ...] = ()
    diagnoses: tuple[DiagnosisFact, ...] = ()
    commands: tuple[CommandFact, ...] = ()
    proofs: tuple[ProofFact, ...] = ()
    still: str = ""
    still_after_hold: str = ""
    before: Snapshot | None = None
    after: Snapshot | None = None
    course: tuple[Snapshot, ...] = ()  # looks in between, for charts; bounded
    turns: int = 0
    model: str = ""
    turn_facts: tuple[TurnFact, ...] = ()
    spent: Spent = field(default_factory=Spent)
    acknowledged: int = 0
    lost: int = 0
    unread: int = 0
    overhead_s: float = 0.0  # what the harness itself took, beside rig, fault, waiting and hold
    ledger: str = ""  # the file of its exported ledger, beside the database
    generated: GeneratedFacts | None = None  # what clients saw, where the fault was generated
