"""Replaying a recording: another mind works on it offline, and is scored on what it says."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.budget import Budget, Spent
from operator_protocols.domain.diagnosis import Alternative, Evidence
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.run import Answer, Ask, Diagnose, Escalate
from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import OperatorError
from operator_sre.agent.transcript import answer_payload
from operator_sre.app.context import trends_of
from operator_sre.app.evals.witness import commands_of, diagnoses_of, proofs_of
from operator_sre.app.evals.working import ticket_fact, truth_of
from operator_sre.app.models import mind_of, over_budget
from operator_sre.app.persons import myself
from operator_sre.app.policy import budget_of
from operator_sre.app.redaction import open_redactor
from operator_sre.app.wiring import App, open_app
from operator_sre.codec import from_json
from operator_sre.config import load_config
from operator_sre.config.models import AUTO, REASONER, model_named
from operator_sre.evals.campaign import Mind
from operator_sre.evals.facts import DiagnosisFact, Moments, TrialFacts, TrialState
from operator_sre.evals.opinions import Completion, Opinions, second_opinions
from operator_sre.evals.recording import Expected, Incident, Recording
from operator_sre.evals.replaying import NOTE, RecordedProofs, RecordedShell, World, policy_for
from operator_sre.evals.scoring import Score, score
from operator_sre.executor import Executor
from operator_sre.gate import Gate, Terms
from operator_sre.monitor import Monitor
from operator_sre.pipeline import Care, Context, Pipeline
from operator_sre.tickets import Desk

if TYPE_CHECKING:
    from operator_protocols.ports import Model

__all__ = ["Replayed", "Said", "replay"]

LEASE_S = 86_400.0
LOOK_S = 30.0
LIMIT = 100_000
WORKER = "replay"


@dataclass(frozen=True, slots=True)
class Said:
    """What a mind said of one incident last; empty where it said nothing."""

    cause: str = ""
    target: str = ""
    summary: str = ""
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recording and one mind: what it said, whether that is right, and what it took.

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


class _Nobody:
    """A mind that says nothing: the least that anybody reaches."""

    name = Mind.NONE.value

    async def answer(self, ask: Ask) -> Answer:
        """Give up at once."""
        return Answer("", (Escalate("Nobody works on it."),))


@dataclass(frozen=True, slots=True)
class _Oracle:
    """A mind that knows the truth: the most that anybody reaches."""

    expected: Expected
    name: str = Mind.ORACLE.value

    async def answer(self, ask: Ask) -> Answer:
        """Say it, and hand it over."""
        told = replace(
            truth_of(self.expected.scenario, self.expected.hit, ask.briefing.ticket),
            evidence=(Evidence("It was told."),),
            alternatives=(Alternative("nothing", "", (), (), "It was told."),),
        )
        return Answer("", (Diagnose(told), Escalate("The truth is told.")))


async def replay(
    app: App, recording: Recording, model: str, *, name: str, second: Completion | None = None
) -> Replayed:
    """Let a mind work on every incident of a recording. Nothing runs, whatever it asks for.

    `second` is asked what it thinks of the commands, beside what the gate thinks.
    """
    began = time.monotonic()
    mind = _mind(app, recording.expected, model)
    budget = budget_of(app.rules())
    worked, problem = [], ""
    for incident in recording.incidents:
        try:
            worked.append(await _work(recording, incident, mind, budget))
        except OperatorError as error:
            problem = str(error)
            break
    entries = [entry for one in worked for entry in one.entries]
    spent = _spent(entries)
    await _pay(app, mind.name, spent)
    facts = _facts(recording, worked, mind.name, spent)
    if problem:
        facts = replace(facts, state=TrialState.FAILED, why=problem)
    opinions = await _opinions(app, facts, second) if second is not None else None
    return Replayed(
        recording=name,
        subject=recording.subject,
        model=mind.name,
        causes=tuple(one.partition("@")[0] for one in recording.expected.scenario.truths),
        hit=recording.expected.hit,
        source=recording.expected.source,
        said=tuple(_said(facts.diagnoses, number) for number in range(1, len(worked) + 1)),
        score=score(facts, cap_s=0.0),
        refused=sum(one.refused for one in worked),
        instead=sum(bool(one.payload.get("by")) for one in entries if one.kind is Kind.REASONING),
        took_s=time.monotonic() - began,
        problem=problem,
        opinions=opinions,
    )


async def _opinions(app: App, facts: TrialFacts, second: Completion) -> Opinions:
    found = await second_opinions(
        facts.commands,
        second,
        redact=open_redactor(app.config).text,
        allowed=lambda: over_budget(app),
    )
    await _pay(app, second.name, found.spent)
    return found


def _mind(app: App, expected: Expected, model: str) -> Model:
    """Who thinks: the reasoner, a model of this home, a transcript, or one to compare with."""
    if model == Mind.NONE:
        return _Nobody()
    if model == Mind.ORACLE:
        return _Oracle(expected)
    model_named(model, app.config.models, words=(AUTO, REASONER), setting="model")
    values = {**app.config.values, "model": model}
    sources = {**app.config.sources, "model": "flag"}
    return mind_of(replace(app, config=replace(app.config, values=values, sources=sources)))


async def _work(recording: Recording, incident: Incident, mind: Model, budget: Budget) -> _Worked:
    """The whole journey of an agent, in a home of its own that is thrown away afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(flags={"home": folder}, environ={}, cwd=Path(folder))
        with open_app(config) as stage:
            world = World(recording, incident)
            pipeline = _pipeline(stage, recording, world, mind, budget)
            opened = await stage.store.tickets.open(incident.violations)
            ticket = await stage.store.leases.claim(
                WORKER, run="run-1", lease_s=LEASE_S, attempts_max=1, ticket=opened.id
            )
            assert ticket is not None
            ended = await pipeline.work(ticket)
            entries = stage.store.entries.after(0, limit=LIMIT)
            return _Worked(ended, entries, len(world.refused))


def _pipeline(
    stage: App, recording: Recording, world: World, mind: Model, budget: Budget
) -> Pipeline:
    store = stage.store
    notes = "\n".join(note for note in (recording.notes, NOTE) if note)
    policy = policy_for(world)
    gate = Gate(
        policy=lambda: policy,
        journal=store.journal,
        approvals=store.approvals,
        clock=stage.clock,
        new_id=stage.new_id,
        terms=Terms(approval_s=0.0),  # there is nobody to ask
    )
    care = Care(
        subject=world,
        gate=gate,
        executor=Executor(store.intents, RecordedShell(world), world.tools),
        propose=world.propose,
        causes=recording.causes,
        notes=notes,
        context=lambda ticket: _context(world, ticket),
    )
    return Pipeline(
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
        care=lambda _: care,
    )


def _context(world: World, ticket: Ticket) -> Context:
    names = list(dict.fromkeys(one.target for one in ticket.violations))
    return Context(trends=trends_of(world.incident.course, names))


def _spent(entries: Sequence[Entry]) -> Spent:
    told = (one.payload.get("spent", {}) for one in entries if one.kind is Kind.REASONING)
    return sum((from_json(Spent, one) for one in told), Spent())


async def _pay(app: App, name: str, spent: Spent) -> None:
    """Count what it cost towards the day of the home whose key was used."""
    if spent != Spent():
        answer = Answer("A recording was replayed.", (), spent, name)
        draft = Draft(Kind.REASONING, answer_payload(answer), actor=myself())
        await app.store.journal.append(draft)


def _facts(recording: Recording, worked: Sequence[_Worked], model: str, spent: Spent) -> TrialFacts:
    """What was seen, as of a trial; each incident has its place as the number of its ticket."""
    expected = recording.expected
    diagnoses, commands, proofs, tickets = [], [], [], []
    turns = 0
    for number, one in enumerate(worked, start=1):
        began, names = one.entries[0].at, frozenset(_names(recording))
        diagnoses += [replace(each, ticket=number) for each in diagnoses_of(one.entries, began)]
        every = commands_of(one.entries, began, names, "/")
        commands += [replace(each, ticket=number) for each in every]
        proofs += [replace(each, ticket=number) for each in proofs_of(one.entries, began)]
        tickets.append(replace(ticket_fact(one.ticket), id=number))
        turns += sum(each.kind is Kind.REASONING for each in one.entries)
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
        # Nothing was mended, so that nobody can say that it is.
        still="nothing runs in a recording",
        turns=turns,
        spent=spent,
    )


def _names(recording: Recording) -> list[str]:
    phases = [phase for one in recording.incidents for phase in one.phases]
    return [one.name for phase in phases for look in phase.looks for one in look.targets]


def _said(diagnoses: Sequence[DiagnosisFact], number: int) -> Said:
    mine = [one for one in diagnoses if one.ticket == number]
    if not mine:
        return Said()
    last = mine[-1]
    return Said(last.cause, last.target, last.summary, last.confidence)
