"""What a report of an incident says: facts only, each with the entry of the ledger behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from operator_protocols.domain.alert import Alert
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.proof import Proof
from operator_sre.app.subject_history import Series

__all__ = [
    "Break",
    "Change",
    "Clock",
    "Deed",
    "FollowUp",
    "Impact",
    "Mind",
    "Moment",
    "Permission",
    "Person",
    "Proven",
    "Report",
    "Source",
    "Understanding",
]


@dataclass(frozen=True, slots=True)
class Clock:
    """When it began, was seen, was taken up, was repaired and was over, as far as that is known.

    `began_at` is when it was first seen broken. `over_at` is when it was first seen to hold for
    good, and `ended_at` is when the ticket came to its end.
    """

    began_at: datetime
    detected_at: datetime
    taken_at: datetime | None = None
    understood_at: datetime | None = None
    repaired_at: datetime | None = None
    over_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline; `seq` is the entry that records it, None where a look did."""

    at: datetime
    step: str
    text: str
    seq: int | None = None
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Break:
    """One invariant that was broken at one target; `until` is None while nobody saw it hold."""

    invariant: str
    target: str
    severity: str
    detail: str
    since: datetime
    until: datetime | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A reading that went another way while it was broken: before, the extremes then, and after."""

    target: str
    reading: str
    before: str
    during: str
    after: str


@dataclass(frozen=True, slots=True)
class Impact:
    """What was broken, for how long, and what of it could be read.

    `targets` is how many parts were looked at, `unseen` are those that could not be seen meanwhile.
    `looks` is how many looks the report rests on.
    """

    breaks: tuple[Break, ...]
    lasted_s: float | None
    affected: tuple[str, ...] = ()
    targets: int = 0
    unseen: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    looks: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """What an entry that is cited records, in a few words."""

    seq: int
    kind: str
    says: str


@dataclass(frozen=True, slots=True)
class Understanding:
    """A diagnosis, the entry it is, and the entries that it cites."""

    seq: int
    at: datetime
    run: str
    diagnosis: Diagnosis
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Permission:
    """Why something could run: by policy, by a standing rule, or by people.

    `state` is that of a request to people, and empty where nobody was asked.
    """

    how: str
    state: str = ""
    approval: str = ""
    rule: str = ""
    asked_at: datetime | None = None
    decided_at: datetime | None = None
    by: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """One command or tool call: what was wanted, what the gate said, who let it, what became of it.

    `changes` is False for what only looks. `undo` takes it back, `undone` is the entry that did.
    """

    seq: int
    at: datetime
    run: str
    command: str
    target: str
    cwd: str
    reasoning: str
    expected: str
    changes: bool
    level: str
    risk: str
    explanation: str
    rules: tuple[str, ...]
    reversible: bool | None
    permission: Permission
    outcome: str
    exit_code: int | None
    duration_s: float
    output: str
    truncated: bool
    result_seq: int | None = None
    undo: str = ""
    undone: int | None = None
    left: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """It ran to its end and said so."""
        return self.outcome == "ran" and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Proven:
    """A proof, or an attempt at one, and the entry it is."""

    seq: int
    at: datetime
    proof: Proof


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Something that is left to do, what kind of thing it is, and how we know."""

    kind: str
    text: str
    command: str = ""
    seqs: tuple[int, ...] = ()
    tickets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Mind:
    """Who thought, in which run, how that ended, and what it cost; `others` spoke in its place."""

    run: str
    model: str
    state: str
    summary: str
    started_at: datetime
    finished_at: datetime | None
    turns: int
    spent: Spent
    others: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who had a part in it, and what they did."""

    name: str
    did: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """One incident, told for people who were not there."""

    ticket: int
    title: str
    subject: str
    target: str
    severity: str
    state: str
    reason: str
    written_at: datetime
    clock: Clock
    summary: tuple[str, ...]
    impact: Impact
    timeline: tuple[Moment, ...]
    understandings: tuple[Understanding, ...]
    deeds: tuple[Deed, ...]
    proofs: tuple[Proven, ...]
    follow_ups: tuple[FollowUp, ...]
    minds: tuple[Mind, ...]
    people: tuple[Person, ...]
    alerts: tuple[Alert, ...] = ()
    assignee: str = ""
    attempts: int = 0
    spent: Spent = field(default_factory=Spent)
    series: tuple[Series, ...] = ()
    entries: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    purged: int = 0
    cut: bool = False

    @property
    def cause(self) -> Understanding | None:
        """The last diagnosis, which is the one that counts."""
        return self.understandings[-1] if self.understandings else None

    @property
    def done(self) -> tuple[Deed, ...]:
        """What was changed, or should have been."""
        return tuple(one for one in self.deeds if one.changes)

    @property
    def questions(self) -> tuple[Deed, ...]:
        """What only looked."""
        return tuple(one for one in self.deeds if not one.changes)

    @property
    def proof(self) -> Proven | None:
        """The proof that ended it; None where there is none."""
        held = [one for one in self.proofs if one.proof.held]
        return held[-1] if held and self.state == "resolved" else None
