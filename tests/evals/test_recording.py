"""A real incident is recorded once, from its home and from its bundle, and replayed by minds."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from operator_evals.app import replays
from operator_evals.app.campaigns import database_path, ledger_folder
from operator_evals.app.recordings import (
    Kept,
    entries_in,
    record_from,
    record_ticket,
    record_trial,
)
from operator_evals.app.replays import Replayed, Said, replay, replay_file, tally
from operator_evals.campaign import Campaign, Scenario, Variant
from operator_evals.database import Recorded, open_database
from operator_evals.facts import TrialFacts, TrialState
from operator_evals.recording import (
    SCHEMA,
    Expected,
    Look,
    Phase,
    Recording,
    proven_diagnosis,
    read_recording,
    restore_targets,
)
from operator_evals.replay import RecordedProofs, RecordedShell, World, canonical, policy_for
from operator_lab.app.rigs import own_rig
from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.run import Answer, Ask, Escalate, Finish
from operator_protocols.domain.target import Process
from operator_protocols.errors import ModelError, NotFoundError, OperatorError, UsageError
from operator_protocols.ports import CorrectOutcome
from operator_sre.agent.transcript import answer_payload
from operator_sre.app.audit import Filter, export_bundle
from operator_sre.app.wiring import App, open_app
from operator_sre.clock import SystemClock
from operator_sre.config import load_config
from operator_sre.gate import judge
from operator_sre.models.patience import Fallback
from operator_sre.models.reasoner import Reasoner
from operator_sre.verify import Verifier
from tests.audit import watch
from tests.every import every

SUBJECT = "ratelimiter"
KEY = f"{SUBJECT}:node_kill/reasoner/0"
SCENARIO = Scenario(
    SUBJECT, "node_kill", CorrectOutcome.MITIGATED, ("node_down",), ("process_dead@hit",)
)
WATCHED_S_MAX = 60.0
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")


@dataclass(frozen=True)
class Incident:
    """What is left of a real incident: a recording, and the ledger that was exported."""

    file: Path
    bundle: Path
    kept: Kept


class _Starts:
    """Counts what starts a process, while it is asked to."""

    def __init__(self) -> None:
        self.is_on = False
        self.seen: list[str] = []

    def see(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.is_on:
            self.seen.append(event)


_starts = _Starts()
watch((*STARTS, "socket.connect"), _starts.see)


@contextmanager
def counted() -> Iterator[list[str]]:
    """What starts a process, or reaches for one, meanwhile."""
    _starts.seen = []
    _starts.is_on = True
    try:
        yield _starts.seen
    finally:
        _starts.is_on = False


@contextmanager
def opened(folder: Path) -> Iterator[App]:
    """An operator home in a folder."""
    flags = {"home": str(folder), "mode": "execute", "stable_s": "0.5", "timeout_s": "2"}
    flags |= {"model": "reasoner", "interval_s": "0.4"}
    with open_app(load_config(flags=flags, environ={}, cwd=folder)) as app:
        yield app


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """A home without anything in it."""
    with opened(tmp_path) as app:
        yield app


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    """A node of a real rig is killed, found, restarted and proven; then the rig is taken down."""
    folder = tmp_path_factory.mktemp("incident")
    with opened(folder) as app:
        return asyncio.run(_incident(app, folder))


async def _incident(app: App, folder: Path) -> Incident:
    rig = await own_rig(app, SUBJECT)
    try:
        engine = app.engine()
        await engine.pipeline.watch(SUBJECT)
        (victim,) = [one for one in rig.targets() if one.name == "node-1"]
        assert victim.process is not None
        os.kill(victim.process.pid, signal.SIGKILL)
        async with asyncio.timeout(WATCHED_S_MAX):
            while not app.store.tickets.find():
                await engine.pipeline.watch(SUBJECT)
            assert await engine.work_once()
        kept = record_ticket(app, 1, folder / "recording.json")
        export_bundle(app, folder / "trial.bundle", Filter())
        return Incident(folder / "recording.json", folder / "trial.bundle", kept)
    finally:
        await rig.down()


def _run(work: Awaitable[Replayed]) -> Replayed:
    async def whole() -> Replayed:
        return await work

    return asyncio.run(whole())


class _Curious:
    """A mind that asks for what nobody asked then, tries to change things, and listens."""

    name = "curious"

    def __init__(self, *commands: Action) -> None:
        self._commands = commands
        self.asks: list[Ask] = []

    async def answer(self, ask: Ask) -> Answer:
        """Ask for all of it, then claim that it is over, then give up."""
        self.asks.append(ask)
        if len(ask.turns) == 0:
            return Answer("let me see", self._commands)
        if len(ask.turns) == 1:
            return Answer("done", (Finish("I have repaired it"),))
        return Answer("", (Escalate("I do not know"),))


def _replay_with(
    app: App, recording: Recording, mind: object, monkeypatch: pytest.MonkeyPatch
) -> Replayed:
    monkeypatch.setattr(replays, "mind_of", lambda app: mind)
    return _run(replay(app, recording, "reasoner", name="r"))


def test_what_was_seen_answered_and_done_is_recorded(incident: Incident) -> None:
    kept, recording = incident.kept, read_recording(incident.file)
    assert (kept.subject, kept.incidents, kept.changes) == (SUBJECT, 1, 1)
    assert kept.looks >= 2
    assert kept.answers >= 1
    assert kept.source == "the proven diagnosis"
    (one,) = recording.incidents
    before, after = one.phases
    assert before.change is not None
    assert before.change.action.tool == "restart_node"
    assert {deed.action.reasoning for deed in before.answers} == {""}
    assert after.proof is not None
    assert after.proof.held
    assert (recording.expected.hit, recording.expected.scenario.truths) == (
        "node-1",
        ("process_dead@hit",),
    )
    assert {"restart_node", "check_port"} <= {spec.name for spec in recording.tools}


def test_the_reasoner_finds_the_cause_again_and_starts_nothing(
    app: App, incident: Incident
) -> None:
    with counted() as seen:
        done = _run(replay_file(app, incident.file, "reasoner"))
    assert seen == []
    score = done.score
    assert (score.cause_right, score.component_at_1, score.component_at_3) == (True, True, True)
    assert done.said[0] == replace(done.said[0], cause="process_dead", target="node-1")
    assert (done.refused, done.instead, done.problem) == (0, 0, "")
    # Nothing was mended, whatever the record says of then.
    assert (score.mitigated, score.end_to_end) == (False, False)


def test_a_process_would_have_been_noticed() -> None:
    with counted() as seen:
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert seen


def test_a_trial_is_recorded_from_its_bundle_when_its_rig_is_gone(
    app: App, incident: Incident, tmp_path: Path
) -> None:
    facts = TrialFacts("c", KEY, SCENARIO, "reasoner", 0, TrialState.DONE, hit="node-1")
    database = database_path(app.config)
    name = "trial.bundle"
    with open_database(database) as known:
        seeds = {"reasoner": 1}
        campaign = Campaign("c", (SCENARIO,), (Variant("reasoner"),), seeds)
        known.begin(Recorded(campaign, "2026-01-01T00:00:00Z", {}))
        known.keep(replace(facts, ledger=name))
        known.keep(replace(facts, key="empty"))
    folder = ledger_folder(database, "c")
    folder.mkdir(parents=True)
    (folder / name).write_bytes(incident.bundle.read_bytes())
    kept = record_from(app, database, "c", KEY, tmp_path / "r.json")
    assert (kept.changes, kept.source) == (1, "the injected fault")
    done = _run(replay_file(app, tmp_path / "r.json", "reasoner"))
    assert (done.score.cause_right, done.score.component_at_1) == (True, True)
    same = record_trial(app, facts, entries_in(incident.bundle), tmp_path / "same.json", ticket=1)
    assert replace(same, file="") == replace(kept, file="")
    assert (tmp_path / "same.json").read_bytes() == (tmp_path / "r.json").read_bytes()
    with pytest.raises(UsageError, match="left no ledger"):
        record_from(app, database, "c", "empty", tmp_path / "x.json")
    with pytest.raises(UsageError, match="already exists"):
        record_from(app, database, "c", KEY, tmp_path / "r.json")
    with pytest.raises(NotFoundError, match="no campaign yet"):
        record_from(app, tmp_path / "none.db", "c", KEY, tmp_path / "x.json")
    with pytest.raises(NotFoundError, match="no ticket 7"):
        record_ticket(app, 7, tmp_path / "x.json")
    with pytest.raises(UsageError, match="No agent has worked on"):
        record_trial(app, facts, [], tmp_path / "x.json", ticket=None)


def test_a_mind_that_asks_for_the_unknown_is_refused_and_nothing_runs(
    app: App, incident: Incident, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = tmp_path / "witness"
    mind = _Curious(
        Action.shell(f"touch {witness}"),
        Action.shell("uptime"),
        Action("restart_node", {"target": "node-2"}, target="node-2"),
        Action("no_such_tool", {}),
    )
    with counted() as seen:
        done = _replay_with(app, read_recording(incident.file), mind, monkeypatch)
    assert seen == []
    assert not witness.exists()
    assert (done.refused, done.score.commands) == (4, 0)
    assert (done.score.cause_right, done.said) == (False, (Said(),))
    told = [step.result for step in mind.asks[1].steps]
    assert [getattr(one, "outcome", None) for one in told] == [Outcome.REFUSED] * 4
    assert "the recording has no result" in getattr(told[1], "stderr", "")
    # It says that it has repaired it, and the record knows better.
    proof = mind.asks[2].steps[-1].result
    assert getattr(proof, "held", None) is False


def test_no_mind_is_told_the_truth(
    app: App, incident: Incident, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = read_recording(incident.file)
    secret = replace(recording.expected.scenario, fault="fault-7731", truths=("cause-7731@hit",))
    expected = replace(recording.expected, scenario=secret, hit="hit-7731", origin="origin-7731")
    mind = _Curious(Action.shell("true"))
    _replay_with(app, replace(recording, expected=expected), mind, monkeypatch)
    assert mind.asks
    assert "7731" not in repr(mind.asks)


def test_a_change_leads_to_what_was_seen_after_it(incident: Incident) -> None:
    recording = read_recording(incident.file)
    (one,) = recording.incidents
    world = World(recording, one)
    change, asked = one.phases[0].change, one.phases[0].answers[0]
    assert change is not None
    asyncio.run(world.observe())
    assert world.check == one.phases[0].looks[0].sighting
    assert world.answer(asked.action) == asked.result
    assert world.answer(change.action) == change.result
    asyncio.run(world.observe())
    assert world.check == one.phases[1].looks[0].sighting
    again = world.answer(asked.action)
    assert again.outcome is Outcome.REFUSED
    assert "in this phase of the incident" in again.stderr
    assert RecordedShell(world).world is world


@every(
    ("one", "other", "same"),
    [
        (Action.shell("ps  -p 7"), Action.shell("ps -p 7", reasoning="why not"), True),
        (Action.shell("ps -p 7"), Action.shell("ps -p 8"), False),
        (Action.shell("echo 'a b'"), Action.shell('echo "a b"'), True),
        (Action.shell("echo 'a b"), Action.shell("echo  'a b"), True),
        (Action.program(["ps", "-p", "7"]), Action.shell("ps -p 7"), True),
        (Action("t", {"a": 1, "b": ""}), Action("t", {"a": 1}), True),
        (Action("t", {"a": 1}), Action("t", {"a": 2}), False),
        (Action("t", {"a": 0}), Action("t", {}), False),
        (Action("t", {"a": 1}), Action("u", {"a": 1}), False),
    ],
)
def test_commands_are_the_same_by_what_they_do(one: Action, other: Action, same: bool) -> None:
    assert (canonical(one) == canonical(other)) is same


def test_floors_and_ceilings_and_a_transcript(app: App, incident: Incident, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([answer_payload(Answer("no", (Escalate("no idea"),)))]))
    models = ("oracle", "none", "restart-everything", "random:1", f"scripted:{script}")
    done = [_run(replay_file(app, incident.file, model)) for model in models]
    assert [one.score.cause_right for one in done] == [True, False, False, False, False]
    assert [one.problem for one in done] == [""] * 5
    counted_ = tally(done)
    assert (counted_.cause_right.count, counted_.cause_right.of, counted_.failed) == (1, 5, 0)
    assert counted_.joint == counted_.cause_right == counted_.component_at_1
    with pytest.raises(OperatorError, match="not a configured model"):
        _run(replay_file(app, incident.file, "nobody"))


class _Judge:
    """A model that calls everything destructive, for money."""

    name = "judge"

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        """Yes."""
        return "yes", Spent(10, 1, 0.5)


def test_a_second_opinion_stands_beside_the_gates_word_and_is_paid_for(
    app: App, incident: Incident
) -> None:
    recording = read_recording(incident.file)
    done = _run(replay(app, recording, "reasoner", name="r", second=_Judge()))
    assert done.opinions is not None
    assert {one.by_model for one in done.opinions.opinions} == {True}
    assert [one.by_gate for one in done.opinions.opinions] == [False] * done.score.unique
    assert done.score.destructive == 0
    today = app.store.spending.on(app.clock.now())
    assert today["judge"].usd == pytest.approx(0.5 * done.score.unique)


class _Dead:
    """A model whose endpoint refuses every connection."""

    name = "dead"

    async def answer(self, ask: Ask) -> Answer:
        raise ModelError("dead cannot be reached.", unreachable=True)


def test_the_work_of_the_reasoner_is_not_the_credit_of_a_dead_model(
    app: App, incident: Incident, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = read_recording(incident.file)
    alone = _replay_with(app, recording, Reasoner(), monkeypatch)
    assert (alone.score.cause_right, alone.score.aided, alone.instead) == (True, False, 0)
    done = _replay_with(app, recording, Fallback(_Dead(), Reasoner()), monkeypatch)
    assert done.said[0].cause == "process_dead", "the reasoner found it"
    assert done.instead == done.score.turns > 0
    assert (done.score.contributed, done.score.cause_right) == (False, False)
    assert not done.score.component_at_3


def test_what_a_look_does_not_tell_of_its_parts_is_in_the_commands(incident: Incident) -> None:
    (one,) = read_recording(incident.file).incidents
    told = [look.targets for phase in one.phases for look in phase.looks]
    bare = replace(
        one, phases=tuple(replace(each, looks=_without_parts(each)) for each in one.phases)
    )
    known = [replace(each, process=Process(1, 1.0)) for each in told[0]]
    found = restore_targets(bare, known).phases[0].looks[0].targets
    (then,) = [each for each in found if each.name == "node-1"]
    assert then.process is not None
    asked = [deed.action.command for deed in one.phases[0].answers]
    assert any(f" {then.process.pid}" in command for command in asked)
    assert restore_targets(one, ()) == one


def _without_parts(phase: Phase) -> tuple[Look, ...]:
    return tuple(replace(one, targets=()) for one in phase.looks)


def test_only_what_was_proven_is_a_truth(incident: Incident) -> None:
    entries = entries_in(incident.bundle)
    found = proven_diagnosis(entries)
    assert found is not None
    assert isinstance(read_recording(incident.file).expected, Expected)
    assert (found.cause, found.target) == ("process_dead", "node-1")
    assert proven_diagnosis([e for e in entries if e.kind is not Kind.TICKET_RESOLVED]) is None


def test_nothing_that_is_recorded_waits_for_a_person(incident: Incident) -> None:
    recording = read_recording(incident.file)
    (one,) = recording.incidents
    world = World(recording, one)
    policy = policy_for(world)
    deeds = [each for phase in one.phases for each in (*phase.answers, phase.change) if each]
    assert all(policy.runs_by_itself(judge(each.action, policy)) for each in deeds)
    assert isinstance(RecordedProofs(world, SystemClock()), Verifier)


def _changed(document: Any, *path: str | int, to: object) -> str:
    place = document = json.loads(json.dumps(document))
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return json.dumps(document)


def test_a_hostile_or_broken_file_is_one_sentence(incident: Incident, tmp_path: Path) -> None:
    text = incident.file.read_text()
    whole = json.loads(text)
    incidents = ("incidents", 0)
    tools = [whole["tools"][0]] * 2
    bad: dict[str, tuple[str, str]] = {
        "truncated": (text[: len(text) // 2], "is damaged"),
        "deep": ("[" * 100_000, "is damaged"),
        "binary": ("\x00\x01", "is damaged"),
        "empty": ("", "is damaged"),
        "list": ("[]", "not a recording"),
        "newer": (_changed(whole, "schema", to="operator-recording/2"), "not a recording"),
        "kind": (_changed(whole, "incidents", to="x"), "is invalid"),
        "none": (_changed(whole, "incidents", to=[]), "no incident"),
        "many": (_changed(whole, "incidents", to=whole["incidents"] * 21), "more than 20"),
        "well": (_changed(whole, *incidents, "violations", to=[]), "nothing is broken"),
        "blind": (_changed(whole, *incidents, "phases", to=[{}]), "without an observation"),
        "other": (_changed(whole, "subject", to="etcd"), "another subject"),
        "tools": (_changed(whole, "tools", to=tools), "the same name"),
        "number": (_changed(whole, *incidents, "violations", 0, "since", to=7), "is invalid"),
    }
    file = tmp_path / "bad.json"
    for name, (content, why) in bad.items():
        file.write_text(content)
        with pytest.raises(UsageError, match=why) as caught:
            read_recording(file)
        assert "\n" not in str(caught.value), name
        assert len(str(caught.value)) < 600, name
    with pytest.raises(NotFoundError, match="no recording"):
        read_recording(tmp_path / "nowhere.json")
    with pytest.raises(UsageError, match="cannot be read"):
        read_recording(tmp_path)
    assert whole["schema"] == SCHEMA


def test_a_bundle_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(UsageError, match="is not a bundle"):
        entries_in(tmp_path / "x")
