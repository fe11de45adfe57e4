"""Recorded incidents replayed: one, or a folder of cases with a tally."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from operator_evals.app.authors import turns_of
from operator_evals.app.trial_agents import ticket_fact, truth_of
from operator_evals.app.trial_facts import commands_of, diagnoses_of, proofs_of
from operator_evals.campaign import Mind
from operator_evals.case_record import record_of
from operator_evals.cases import cases_in, causes_around, recording_of
from operator_evals.facts import Moments, TrialFacts, TrialState, TurnFact
from operator_evals.opinions import Completion, Opinions, second_opinions
from operator_evals.recording import Expected, Incident, Recording, read_recording
from operator_evals.replay import NOTE, RecordedProofs, RecordedShell, World, policy_for
from operator_evals.score import Score, Share, score, share
from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.budget import Budget, Spent
from operator_protocols.domain.diagnosis import Alternative, Diagnosis, Evidence
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.run import Answer, Ask, Diagnose, Escalate
from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import OperatorError
from operator_sre.agent.transcript import answer_payload
from operator_sre.app.context import trends_of
from operator_sre.app.models import mind_of, objection_to, over_budget
from operator_sre.app.persons import myself
from operator_sre.app.policy import budget_of
from operator_sre.app.redaction import open_redactor
from operator_sre.app.wiring import App, open_app
from operator_sre.codec import from_json
from operator_sre.config import load_config
from operator_sre.config.models import AUTO, REASONER, model_named
from operator_sre.controls import Context, Controls
from operator_sre.executor import Executor
from operator_sre.gate import Gate, Terms
from operator_sre.monitor import Monitor
from operator_sre.pipeline import Pipeline
from operator_sre.plugins import find_reader
from operator_sre.tickets import Desk

if TYPE_CHECKING:
    from operator_protocols.ports import Model
    from operator_sre.app.wiring import App

__all__ = ["Replayed", "Said", "Tally", "replay", "replay_cases", "replay_file", "tally"]

LEASE_S = 86_400.0
LOOK_S = 30.0
LIMIT = 100_000
WORKER = "replay"


@dataclass(frozen=True, slots=True)
class Said:
    """The last diagnosis of one incident; empty where there was none."""

    cause: str = ""
    target: str = ""
    summary: str = ""
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recording and one agent: its diagnoses, whether they are right, and their cost.

    `refused` is how often it asked for what the recording does not know. `instead` counts answers
    of the built-in reasoner in the place of a model that could not speak. `opinions` are those of a
    second model on what was destructive, where one was asked.
    """

    recording: str
    subject: str
    model: str
    causes: tuple[str, ...]
    hit: str
    source: str
    said: tuple[Said, ...]
    score: Score
    refused: int
    instead: int
    took_s: float
    problem: str = ""
    opinions: Opinions | None = None


@dataclass(frozen=True, slots=True)
class _Worked:
    """One incident that was worked on."""

    ticket: Ticket
    entries: Sequence[Entry]
    refused: int


class _Silent:
    """An agent that diagnoses nothing: the lower bound."""

    name = Mind.NONE.value

    async def answer(self, ask: Ask) -> Answer:
        """Give up at once."""
        return Answer("", (Escalate("No agent is working on the ticket."),))


@dataclass(frozen=True, slots=True)
class _Reader:
    """The built-in reasoner of a recorded system: it diagnoses the record, and asks nothing."""

    diagnosis: Diagnosis | None
    name: str = REASONER

    async def answer(self, ask: Ask) -> Answer:
        """The diagnosis, or that nothing explains the record."""
        if self.diagnosis is None:
            reason = "Not identified: nothing in the record explains the incident."
            return Answer(reason, (Escalate(reason),))
        return Answer("", (Diagnose(self.diagnosis), Escalate(self.diagnosis.summary)))


@dataclass(frozen=True, slots=True)
class _Oracle:
    """An agent that knows the truth: the upper bound."""

    expected: Expected
    name: str = Mind.ORACLE.value

    async def answer(self, ask: Ask) -> Answer:
        """Say it, and hand it over."""
        truth = replace(
            truth_of(self.expected.scenario, self.expected.hit, ask.briefing.ticket),
            evidence=(Evidence("The recording contains the cause."),),
            alternatives=(Alternative("nothing", "", (), (), "The recording contains the cause."),),
        )
        return Answer("", (Diagnose(truth), Escalate("The recorded cause is reported.")))


async def replay(
    app: App,
    recording: Recording,
    model: str,
    *,
    name: str,
    second: Completion | None = None,
    diagnose: Callable[[], Diagnosis | None] | None = None,
) -> Replayed:
    """Let an agent work on every incident of a recording. No action runs.

    `second` is asked what it thinks of the commands, beside what the gate thinks. The built-in
    reasoner gives the diagnosis of `diagnose` where there is one.
    """
    began = time.monotonic()
    mind: Model
    if model == REASONER and diagnose is not None:
        mind = _Reader(diagnose())
    else:
        mind = _find_mind(app, recording, model)
    budget = budget_of(app.rules())
    worked, problem = [], ""
    for incident in recording.incidents:
        try:
            worked.append(await _work_on(recording, incident, mind, budget))
        except OperatorError as error:
            problem = str(error)
            break
    entries = [entry for worked_incident in worked for entry in worked_incident.entries]
    costs = (entry.payload.get("spent", {}) for entry in entries if entry.kind is Kind.REASONING)
    spent = sum((from_json(Spent, cost) for cost in costs), Spent())
    await _pay(app, mind.name, spent)
    facts = _collect_facts(recording, worked, mind.name, spent)
    if problem:
        facts = replace(facts, state=TrialState.FAILED, why=problem)
    opinions = None
    if second is not None:
        redact = open_redactor(app.config).text
        opinions = await second_opinions(
            facts.commands, second, redact=redact, allowed=lambda: over_budget(app)
        )
        await _pay(app, second.name, opinions.spent)
    last = {diagnosis.ticket: diagnosis for diagnosis in facts.diagnoses}
    verdicts = [
        Said(diagnosis.cause, diagnosis.target, diagnosis.summary, diagnosis.confidence)
        if (diagnosis := last.get(number))
        else Said()
        for number in range(1, len(worked) + 1)
    ]
    return Replayed(
        recording=name,
        subject=recording.subject,
        model=mind.name,
        causes=tuple(truth.partition("@")[0] for truth in recording.expected.scenario.truths),
        hit=recording.expected.hit,
        source=recording.expected.source,
        said=tuple(verdicts),
        score=score(facts, cap_s=0.0),
        refused=sum(worked_incident.refused for worked_incident in worked),
        instead=sum(
            bool(entry.payload.get("by")) for entry in entries if entry.kind is Kind.REASONING
        ),
        took_s=time.monotonic() - began,
        problem=problem,
        opinions=opinions,
    )


def _find_mind(app: App, recording: Recording, model: str) -> Model:
    """The agent of that name: a baseline, the built-in reasoner, or a configured model."""
    if model == Mind.NONE:
        return _Silent()
    if model == Mind.ORACLE:
        return _Oracle(recording.expected)
    model_named(model, app.config.models, words=(AUTO, REASONER), setting="model")
    values = {**app.config.values, "model": model}
    sources = {**app.config.sources, "model": "flag"}
    return mind_of(replace(app, config=replace(app.config, values=values, sources=sources)))


async def _work_on(
    recording: Recording, incident: Incident, mind: Model, budget: Budget
) -> _Worked:
    """The whole journey of an agent, in a home of its own that is thrown away afterwards."""

    def context(ticket: Ticket) -> Context:
        names = list(dict.fromkeys(violation.target for violation in ticket.violations))
        return Context(trends=trends_of(incident.course, names))

    with tempfile.TemporaryDirectory() as folder:
        config = load_config(flags={"home": folder}, environ={}, cwd=Path(folder))
        with open_app(config) as stage:
            world = World(recording, incident)
            store = stage.store
            notes = "\n".join(note for note in (recording.notes, NOTE) if note)
            policy = policy_for(world)
            gate = Gate(
                policy=lambda: policy,
                journal=store.journal,
                approvals=store.approvals,
                clock=stage.clock,
                new_id=stage.new_id,
                terms=Terms(approval_s=0.0),  # there is no one to approve
            )
            controls = _ReplayedControls(
                subject=world,
                gate=gate,
                executor=Executor(store.intents, RecordedShell(world), world.tools),
                causes=recording.causes,
                notes=notes,
                context=context,
            )
            pipeline = Pipeline(
                monitor=Monitor(
                    clock=stage.clock,
                    conditions=store.conditions,
                    observations=store.observations,
                    timeout_s=LOOK_S,
                    blind_grace_s=0.0,
                ),
                desk=Desk(tickets=store.tickets, leases=store.leases, stable_s=0.0),
                model=mind,
                verifier=RecordedProofs(world, stage.clock),
                journal=store.journal,
                entries=store.entries,
                sealed=store.sealed,
                tickets=store.tickets,
                clock=stage.clock,
                budget=budget,
                controls=lambda _: controls,
                objection=objection_to,
            )
            opened = await stage.store.tickets.open(incident.violations)
            ticket = await stage.store.leases.claim(
                WORKER, run="run-1", lease_s=LEASE_S, attempts_max=1, ticket=opened.id
            )
            assert ticket is not None
            ended = await pipeline.work(ticket)
            entries = stage.store.entries.after(0, limit=LIMIT)
            return _Worked(ended, entries, len(world.refused))


class _ReplayedControls(Controls):
    """Controls of a recorded world, which has every action as it was done then."""

    async def complete(self, action: Action, ticket: Ticket | None = None) -> Action | Result:
        assert isinstance(self.subject, World)
        return await self.subject.propose(action, ticket)


async def _pay(app: App, name: str, spent: Spent) -> None:
    """Count what it cost towards the day of the home whose key was used."""
    if spent != Spent():
        answer = Answer("A recording was replayed.", (), spent, name)
        draft = Draft(Kind.REASONING, answer_payload(answer), actor=myself())
        await app.store.journal.append(draft)


def _collect_facts(
    recording: Recording, worked: Sequence[_Worked], model: str, spent: Spent
) -> TrialFacts:
    """What was seen, as of a trial; each incident has its place as the number of its ticket."""
    expected = recording.expected
    diagnoses, commands, proofs, tickets = [], [], [], []
    turns: list[TurnFact] = []
    phases = [phase for incident in recording.incidents for phase in incident.phases]
    names = frozenset(
        target.name for phase in phases for look in phase.looks for target in look.targets
    )
    for number, work in enumerate(worked, start=1):
        began = work.entries[0].at
        diagnoses += [replace(each, ticket=number) for each in diagnoses_of(work.entries, began)]
        every = commands_of(work.entries, began, names, "/")
        commands += [replace(each, ticket=number) for each in every]
        proofs += [replace(each, ticket=number) for each in proofs_of(work.entries, began)]
        tickets.append(replace(ticket_fact(work.ticket), id=number))
        turns += [replace(each, ticket=number) for each in turns_of(work.entries, began)]
    return TrialFacts(
        campaign=WORKER,
        key=expected.origin,
        scenario=expected.scenario,
        variant=model,
        seed=0,
        state=TrialState.DONE,
        hit=expected.hit,
        moments=Moments(fault_injected=0.0, ticket_created=0.0),
        tickets=tuple(tickets),
        diagnoses=tuple(diagnoses),
        commands=tuple(commands),
        proofs=tuple(proofs),
        # Nothing was repaired, so no repair can be proven.
        still="nothing runs in a recording",
        turns=len(turns),
        model=model,
        turn_facts=tuple(turns),
        spent=spent,
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """How often an agent was right over several recordings; a failed replay counts as wrong.

    `joint` is the right cause at the right component, both in the first place. `by_cause` has the
    same for each true cause.
    """

    model: str
    component_at_1: Share
    component_at_3: Share
    cause_right: Share
    joint: Share
    failed: int
    tokens: int
    usd: float
    mean_s: float = 0.0
    by_cause: tuple[CauseTally, ...] = ()


@dataclass(frozen=True, slots=True)
class CauseTally:
    """The recordings of one true cause."""

    cause: str
    of: int
    component: int
    cause_right: int
    joint: int
    tokens: int
    mean_s: float


async def replay_file(app: App, file: Path, model: str) -> Replayed:
    """One recording from its file."""
    return await replay(app, read_recording(file), model, name=file.name)


async def replay_cases(
    app: App,
    folder: Path,
    model: str,
    *,
    limit: int | None = None,
    tell: Callable[[Replayed], None] = lambda _: None,
) -> tuple[Replayed, ...]:
    """Every case below a folder, one after another; `tell` hears of each when it is done."""
    causes = causes_around(folder)
    reader = find_reader("kubernetes")
    done = []
    for case in cases_in(folder, limit=limit):
        diagnose = partial(reader.diagnose, record_of(case), causes)
        recording = recording_of(case, causes)
        replayed = await replay(app, recording, model, name=case.name, diagnose=diagnose)
        done.append(replayed)
        tell(replayed)
    return tuple(done)


def tally(done: Sequence[Replayed]) -> Tally:
    """All of them together, and those of each cause. Pure."""
    groups: dict[str, list[Replayed]] = {}
    for replayed in done:
        groups.setdefault(" or ".join(replayed.causes), []).append(replayed)
    scores = [replayed.score for replayed in done]
    return Tally(
        model=done[0].model if done else "",
        component_at_1=share([score.component_at_1 for score in scores]),
        component_at_3=share([score.component_at_3 for score in scores]),
        cause_right=share([score.cause_right for score in scores]),
        joint=share([score.component_at_1 and score.cause_right for score in scores]),
        failed=sum(bool(replayed.problem) for replayed in done),
        tokens=sum(score.tokens for score in scores),
        usd=sum(score.usd for score in scores),
        mean_s=_mean_s(done),
        by_cause=tuple(
            CauseTally(
                cause=cause,
                of=len(group),
                component=sum(each.score.component_at_1 for each in group),
                cause_right=sum(each.score.cause_right for each in group),
                joint=sum(each.score.component_at_1 and each.score.cause_right for each in group),
                tokens=sum(each.score.tokens for each in group),
                mean_s=_mean_s(group),
            )
            for cause, group in sorted(groups.items())
        ),
    )


def _mean_s(done: Sequence[Replayed]) -> float:
    return round(sum(each.took_s for each in done) / max(1, len(done)), 3)
