"""The facts of a report, and the phrases for them that every rendering uses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from operator_protocols.domain.alert import Alert
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.proof import Proof
from operator_sre.app.subjects import Series
from operator_sre.drawing import plural, span

__all__ = [
    "Break",
    "Clock",
    "FollowUp",
    "Impact",
    "Mind",
    "Moment",
    "Permission",
    "Person",
    "Proven",
    "ReadingChange",
    "Report",
    "ReportedAction",
    "Source",
    "Understanding",
    "cost_of",
    "facts_of",
    "mind_name",
    "moment",
    "permission_of",
    "result_of",
    "share",
    "summary_of",
    "time_of_day",
    "verdict_of",
]

BUILT_IN = "reasoner"
SURE_MAX = 0.999
NAMED_MAX = 4


@dataclass(frozen=True, slots=True)
class Clock:
    """The known times of an incident: start, detection, claim, repair and recovery.

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
    """One line of the timeline; `seq` is its entry, None for an observation."""

    at: datetime
    step: str
    text: str
    seq: int | None = None
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Break:
    """One violated invariant at one target; `until` is None while it is not known to hold."""

    invariant: str
    target: str
    severity: str
    detail: str
    since: datetime
    until: datetime | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class ReadingChange:
    """A reading that went another way while it was broken: before, the extremes then, and after."""

    target: str
    reading: str
    before: str
    during: str
    after: str


@dataclass(frozen=True, slots=True)
class Impact:
    """What was broken, for how long, and what of it could be read.

    `targets` counts the observed targets, `unseen` names the targets that could not be.
    `looks` is how many looks the report rests on.
    """

    breaks: tuple[Break, ...]
    lasted_s: float | None
    affected: tuple[str, ...] = ()
    targets: int = 0
    unseen: tuple[str, ...] = ()
    changes: tuple[ReadingChange, ...] = ()
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

    `state` is that of the approval request, and empty without one.
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
class ReportedAction:
    """One command or tool call with its verdict, its permission and its result.

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
        """The command ran and succeeded."""
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
    """A person, and what they did."""

    name: str
    did: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """One incident, for people who were not involved."""

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
    deeds: tuple[ReportedAction, ...]
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
        """The last diagnosis, which counts."""
        return self.understandings[-1] if self.understandings else None

    @property
    def headline(self) -> str:
        """The diagnosis, or what broke while there is none."""
        return self.cause.diagnosis.summary.rstrip(".") if self.cause else self.title

    @property
    def done(self) -> tuple[ReportedAction, ...]:
        """What was changed, or should have been."""
        return tuple(deed for deed in self.deeds if deed.changes)

    @property
    def questions(self) -> tuple[ReportedAction, ...]:
        """What only looked."""
        return tuple(deed for deed in self.deeds if not deed.changes)

    @property
    def proof(self) -> Proven | None:
        """The proof that ended it; None where there is none."""
        held = [proven for proven in self.proofs if proven.proof.held]
        return held[-1] if held and self.state == "resolved" else None


def moment(at: datetime | None) -> str:
    """A moment with its day, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "-"


def time_of_day(at: datetime, day: datetime) -> str:
    """A moment on a known day without that day; with it on any other."""
    at = at.astimezone(UTC)
    is_same_day = at.date() == day.astimezone(UTC).date()
    return f"{at:%H:%M:%S}" if is_same_day else f"{at:%m-%d %H:%M:%S}"


def share(probability: float) -> str:
    """A probability; nothing is ever certain."""
    return f"{min(probability, SURE_MAX):.1%}"


def mind_name(model: str) -> str:
    """The display name of a model."""
    return "the built-in reasoner" if model == BUILT_IN else model


def cost_of(spent: Spent) -> str:
    """The cost of the model; a dash where there is none."""
    if not spent.tokens and not spent.usd:
        return "-"
    tokens = f"{spent.tokens_in} tokens in, {spent.tokens_out} out"
    return f"{tokens}, {spent.usd:.4f} USD" if spent.usd else tokens


def facts_of(report: Report) -> Sequence[tuple[str, str]]:
    """The facts at the top of the report, by name."""
    clock = report.clock
    minds = dict.fromkeys(mind_name(mind.model) for mind in report.minds)
    facts = [
        ("state", report.state),
        ("severity", report.severity),
        ("subject", f"{report.subject}, {report.target}"),
        ("first seen broken", moment(clock.began_at)),
    ]
    steps = (
        ("ticket opened", clock.detected_at),
        ("diagnosed", clock.understood_at),
        ("repaired", clock.repaired_at),
        ("healthy since", clock.over_at),
        ("proof starts", report.proof.proof.since if report.proof else None),
        ("closed", clock.ended_at),
    )
    for name, at in steps:
        if at is not None:
            after = span((at - clock.began_at).total_seconds())
            facts.append((name, f"{moment(at)} (+{after})"))
    facts.append(("broken for", span(report.impact.lasted_s)))
    facts.append(("model", ", ".join(minds) or "none"))
    if report.assignee:
        facts.append(("assigned to", report.assignee))
    facts.append(("model cost", cost_of(report.spent)))
    if report.reason:
        facts.append(("result", report.reason))
    return [(name, text) for name, text in facts if text != "-"]


def verdict_of(deed: ReportedAction) -> str:
    """The gate's verdict in a line."""
    if not deed.level:
        return "not judged"
    rules = f" [{', '.join(deed.rules)}]" if deed.rules else ""
    explanation = f": {deed.explanation}" if deed.explanation else ""
    back = {True: ", reversible", False: ", not reversible"}
    reversible = "" if deed.reversible is None else back[deed.reversible]
    return f"{deed.level.upper()}, risk {deed.risk}{reversible}{explanation}{rules}"


def permission_of(permission: Permission) -> str:
    """Who or what permitted the action."""
    match permission.how:
        case "policy":
            return "by the policy, without approval"
        case "rule":
            return f"by the standing rule {permission.rule}"
        case "people":
            by = f" by {', '.join(permission.by)}" if permission.by else ""
            when = f" at {moment(permission.decided_at)}" if permission.decided_at else ""
            waited = ""
            if permission.asked_at and permission.decided_at:
                seconds = (permission.decided_at - permission.asked_at).total_seconds()
                waited = f", {span(seconds)} after the request"
            reason = f": {permission.reason}" if permission.reason else ""
            return f"{permission.state}{by}{when}{waited} (request {permission.approval}){reason}"
        case _:
            return "not permitted"


def result_of(deed: ReportedAction) -> str:
    """The result of the action in a line."""
    if deed.outcome == "ran":
        lines = deed.output.splitlines()
        last = f": {lines[-1].strip()}" if lines else ""
        return f"exit {deed.exit_code} in {span(deed.duration_s)}{last}"
    if deed.outcome == "refused":
        return f"not run: {' '.join(deed.output.split())}"
    if not deed.outcome:
        return "pending approval" if deed.permission.state == "pending" else "not finished"
    return deed.outcome.replace("_", " ")


def summary_of(report: Report) -> tuple[str, ...]:
    """What happened, why, what was done, and the state of the incident."""
    first = report.impact.breaks[0] if report.impact.breaks else None
    where = first.target if first else report.target
    broken = f"{first.invariant} ({first.detail})" if first and first.detail else report.title
    began = moment(report.clock.began_at)
    sentences = [f"On {began}, {where} of {report.subject} broke: {broken}."]
    if len(report.impact.breaks) > 1:
        others = plural(len(report.impact.breaks) - 1, "more violation")
        sentences.append(f"The incident includes {others}.")
    if report.cause is not None:
        diagnosis = report.cause.diagnosis
        backed = sum(evidence.seq is not None for evidence in diagnosis.evidence)
        on = f" on {plural(backed, 'piece')} of evidence" if backed else ""
        summary = diagnosis.summary.rstrip(".")
        sentences.append(f"Cause, {share(diagnosis.confidence)} sure{on}: {summary}.")
    elif report.minds:
        sentences.append("The cause is not known yet.")
    else:
        sentences.append("No agent has worked on the ticket.")
    questions = len(report.questions)
    done = [deed for deed in report.done if deed.outcome not in ("", "refused")]
    if done:
        named = "; ".join(deed.command for deed in done[:NAMED_MAX])
        more = f" and {len(done) - NAMED_MAX} more" if len(done) > NAMED_MAX else ""
        people = dict.fromkeys(by for deed in done for by in deed.permission.by)
        who = f", approved by {', '.join(people)}" if people else ""
        after = f" after {plural(questions, 'read-only command')}" if questions else ""
        sentences.append(f"Changes{after}: {named}{more}{who}.")
    elif report.deeds:
        sentences.append(f"Nothing was changed ({plural(questions, 'read-only command')}).")
    else:
        sentences.append("Nothing was run.")
    lasted = span(report.impact.lasted_s)
    ends = {
        "resolved": f"The incident was resolved {lasted} after the first violation.",
        "closed": "The ticket was closed without proof.",
        "escalated": f"The ticket was escalated. {report.reason}".strip(),
        "watched": "The invariants hold again, and Operator watches them until they are stable.",
    }
    end = ends.get(report.state, f"The incident is not resolved: broken for {lasted} so far.")
    if report.proof is not None:
        proof = report.proof.proof
        end = (
            f"The incident lasted {lasted} and is resolved with proof"
            f" ({plural(proof.looks, 'check')} over {span(proof.stable_s)})."
        )
    return (*sentences, end)
