"""A rig through the use cases that the faces call: up, hurt, healed, started anew, down."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from operator_lab.app import rigs as lab
from operator_lab.app.rig_logs import LogView, follow_logs, read_logs
from operator_lab.app.rigs import (
    BrokenView,
    FaultView,
    Latency,
    RigView,
    TargetView,
    break_rig,
    choose_fault,
    choose_rig,
    fault_of,
    faults_of,
    heal_all,
    heal_rig,
    own_rig,
    restart_rig,
    rig_down,
    rig_report,
    rig_status,
    rig_up,
    rigs_up,
)
from operator_protocols.domain.action import Action
from operator_protocols.domain.rig import RigSpec
from operator_protocols.errors import MissingExtraError, NotFoundError, RigError, UsageError
from operator_protocols.installation import how_to_add_extra
from operator_protocols.ports import CorrectOutcome, Plugin
from operator_sre.app.wiring import App
from operator_sre.gate import Profile
from operator_sre.plugins import find_plugin
from tests.app.home import opened
from tests.processes.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

NAME = "ratelimiter"
FAULTS = find_plugin(NAME).faults


def _states(view: RigView) -> dict[str, str]:
    return {target.name: str(target.state) for target in view.targets}


def _pids(view: RigView) -> dict[str, int | None]:
    return {target.name: target.pid for target in view.targets}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """A home with a rig that is up."""
    with opened(tmp_path_factory.mktemp("home"), mode="execute") as app:
        view = await rig_up(app, NAME)
        try:
            assert set(_states(view).values()) == {"running"}
            assert view.broken == ()
            yield app
        finally:
            await rig_down(app, NAME)
        assert rigs_up(app) == app.subjects() == []
        with pytest.raises(NotFoundError):
            rig_status(app, NAME)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[App]:
    """A home without a rig."""
    with opened(tmp_path) as app:
        yield app


async def test_a_rig_is_in_our_care_with_the_rights_of_a_lab(app: App) -> None:
    view = rig_status(app, NAME)
    assert view.faults == tuple(fault.name for fault in FAULTS)
    assert app.subjects() == app.choose([]) == rigs_up(app) == [NAME]
    policy = app.controls(NAME).gate.policy()
    assert policy.profile is Profile.LAB
    assert policy.boundary_tools >= {"restart_node", "resume_node"}
    assert policy.boundary_targets == set(_states(view))
    script = Action("execute_script", {"language": "bash", "text": "true"}, target="store")
    gate = app.controls(NAME).gate
    assert policy.runs_by_itself(gate.judge(script))
    assert not policy.runs_by_itself(gate.judge(replace(script, target="somewhere")))
    for target in view.targets:
        assert isinstance(target, TargetView)
        assert 0 < target.ports["main"] < 65536
        assert Path(target.log).is_file()
        assert Path(target.data_dir).is_dir()


async def test_it_is_hurt_judged_and_healed(app: App) -> None:
    hit = await break_rig(app, NAME, "node_pause", target="node-2", seed=None)
    assert hit == "node-2"
    assert _states(rig_status(app, NAME))["node-2"] == "paused"
    assert rig_status(app, NAME).broken == (BrokenView("node_pause", "node-2"),)
    (one,) = (await rig_report(app, NAME)).broken
    assert (one.fault, one.target, one.over) == ("node_pause", "node-2", False)
    assert "node-2" in one.still
    await restart_rig(app, NAME, target="node-2")  # somebody else mends it
    (one,) = (await rig_report(app, NAME)).broken
    assert (one.over, one.still) == (True, "")
    assert await heal_rig(app, NAME, "node_pause", target="node-2") == "node-2"
    assert set(_states(rig_status(app, NAME)).values()) == {"running"}


async def test_all_is_healed_and_the_newest_first(app: App) -> None:
    assert await heal_all(app, NAME, target=None) == ()
    await break_rig(app, NAME, "node_pause", target="node-1", seed=None)
    await break_rig(app, NAME, "node_kill", target="node-1", seed=None)
    await break_rig(app, NAME, "node_kill", target="node-3", seed=None)
    assert await heal_all(app, NAME, target="node-3") == (BrokenView("node_kill", "node-3"),)
    assert await heal_all(app, NAME, target=None) == (
        BrokenView("node_kill", "node-1"),
        BrokenView("node_pause", "node-1"),
    )
    view = rig_status(app, NAME)
    assert (view.broken, set(_states(view).values())) == ((), {"running"})
    with pytest.raises(NotFoundError, match=r"no target 'moon' .*node-1"):
        await heal_all(app, NAME, target="moon")


async def test_one_that_cannot_be_healed_keeps_no_other_from_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await break_rig(app, NAME, "node_kill", target="node-1", seed=None)
    await break_rig(app, NAME, "node_pause", target="node-2", seed=None)

    async def stubborn(scene: object) -> None:
        raise RigError("It will not.")

    real = lab.fault_of

    def found(subject: str, name: str) -> object:
        fault = real(subject, name)
        return replace(fault, heal=stubborn) if name == "node_pause" else fault

    with monkeypatch.context() as patch:
        patch.setattr(lab, "fault_of", found)
        with pytest.raises(RigError, match=r"node_pause at node-2: It will not\. .*lab down"):
            await heal_all(app, NAME, target=None)
    assert rig_status(app, NAME).broken == (BrokenView("node_pause", "node-2"),)
    assert len(await heal_all(app, NAME, target=None)) == 1


async def test_an_oracle_that_fails_or_hangs_has_not_said_that_it_is_over(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await break_rig(app, NAME, "node_pause", target="node-2", seed=None)
    real = lab.fault_of

    async def raises(scene: object) -> str:
        raise LookupError("no idea")

    async def hangs(scene: object) -> str:
        return str(await asyncio.Event().wait())

    monkeypatch.setattr(lab, "ORACLE_S_MAX", 0.05)
    for oracle, says in ((raises, "LookupError: no idea"), (hangs, "within 0.05 s")):
        with monkeypatch.context() as patch:
            patch.setattr(lab, "fault_of", lambda s, n, o=oracle: replace(real(s, n), oracle=o))
            (one,) = (await rig_report(app, NAME)).broken
        assert one.over is False
        assert says in one.still
    await heal_all(app, NAME, target=None)


async def test_one_or_all_are_started_anew_after_what_they_need(app: App) -> None:
    before = _pids(rig_status(app, NAME))
    assert await restart_rig(app, NAME, target="node-3") == ("node-3",)
    after = _pids(rig_status(app, NAME))
    assert {name for name in before if before[name] != after[name]} == {"node-3"}
    order = await restart_rig(app, NAME, target=None)
    assert set(order) == set(before)
    needs = {each.name: each.depends_on for each in app.targets_of(NAME)}
    assert all(order.index(need) < order.index(one) for one in order for need in needs[one])
    last = _pids(rig_status(app, NAME))
    assert all(last[name] != after[name] for name in last)
    with pytest.raises(NotFoundError, match=r"no target 'moon' .*node-1"):
        await restart_rig(app, NAME, target="moon")


async def test_the_load_tells_rate_and_latency(app: App) -> None:
    def told() -> bool:
        load = rig_status(app, NAME).load
        return load is not None and load.latency_total.p99_ms is not None

    await eventually(told)
    load = rig_status(app, NAME).load
    assert load is not None
    assert isinstance(load.latency, Latency)
    assert load.success_rate_total is not None
    assert 0.0 < load.success_rate_total <= 1.0


async def test_faults_are_told_with_whether_they_can_be_had(app: App, bare: App) -> None:
    there = faults_of(app, NAME)
    assert [one.name for one in there] == [fault.name for fault in FAULTS]
    kill = next(one for one in there if one.name == "node_kill")
    fault = fault_of(NAME, "node_kill")
    assert kill == FaultView(
        *(NAME, "node_kill", fault.sentence, "node", fault.breaks),
        *(CorrectOutcome.MITIGATED, True, ""),
    )
    for one in there:
        assert one.available is not bool(one.why_not)
    for one in faults_of(bare, NAME):
        assert (one.available, one.why_not) == (None, "")
    everything = faults_of(bare, None)
    assert {one.name for one in everything if one.subject == NAME} == {one.name for one in there}


async def test_without_the_extra_no_fault_can_be_had(
    bare: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> RigSpec:
        raise MissingExtraError("lab", needed_for="The rig")

    poor = replace(find_plugin(NAME), rig=missing)
    monkeypatch.setattr(lab, "find_plugin", lambda name: poor)
    assert {one.available for one in faults_of(bare, NAME)} == {False}
    assert all(how_to_add_extra("lab") in one.why_not for one in faults_of(bare, NAME))


async def test_a_subject_or_a_fault_may_be_left_out_where_it_is_clear(app: App, bare: App) -> None:
    assert choose_rig(app, None) == NAME
    assert choose_rig(bare, NAME) == NAME
    assert choose_fault(app, []) == (NAME, None)
    assert choose_fault(app, [NAME]) == (NAME, None)
    assert choose_fault(app, ["node_kill"]) == (NAME, "node_kill")
    assert choose_fault(app, [NAME, "node_kill"]) == (NAME, "node_kill")
    with pytest.raises(UsageError, match="At most a subject and a fault"):
        choose_fault(app, [NAME, "node_kill", "more"])
    with pytest.raises(NotFoundError, match=r"No rig is up\. Start one with: operator lab up"):
        choose_rig(bare, None)
    with pytest.raises(NotFoundError, match=r"no subject 'moon'\. Known subjects: .*ratelimiter"):
        choose_rig(app, "moon")


async def test_of_several_rigs_one_has_to_be_named(
    bare: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "rigs_up", lambda app: ["etcd", NAME])
    with pytest.raises(UsageError, match=r"Several rigs are up\. Name one of: etcd, ratelimiter"):
        choose_rig(bare, None)


async def test_logs_are_read_from_their_end_and_followed(app: App) -> None:
    log = Path(rig_status(app, NAME).targets[0].log)
    target = rig_status(app, NAME).targets[0].name
    _append(log, "first\nzweite é \x1b[31m\n".encode() + b"\xff\n")
    (view,) = read_logs(app, NAME, target=target, lines=2)
    assert view == LogView(target, str(log), ("zweite é \x1b[31m", "\ufffd"))
    assert {one.target for one in read_logs(app, NAME, target=None, lines=1)} == {
        *_states(rig_status(app, NAME)),
        "load",
    }
    with pytest.raises(NotFoundError, match=r"no target 'moon' .*Logs: .*load"):
        read_logs(app, NAME, target="moon", lines=1)

    following = follow_logs(app, NAME, target=target, lines=1)
    async with asyncio.timeout(20.0):
        assert (await anext(following)).lines == ("\ufffd",)
        _append(log, b"half ")
        waiting = asyncio.ensure_future(anext(following))
        _append(log, b"a line\nanother\n")
        assert await _lines(waiting, following, 2) == ["half a line", "another"]
        os.truncate(log, log.stat().st_size // 2)  # as `flooded` is healed
        waiting = asyncio.ensure_future(anext(following))
        await eventually(lambda: _append(log, b"after\n") and waiting.done())
        assert set(await _lines(waiting, following, 1)) == {"after"}


def _append(log: Path, data: bytes) -> int:
    with log.open("ab") as file:
        return file.write(data)


async def _lines(
    waiting: asyncio.Future[LogView], following: AsyncIterator[LogView], count: int
) -> list[str]:
    found = list((await waiting).lines)
    while len(found) < count:
        found += (await anext(following)).lines
    return found


async def test_a_subject_without_a_rig_is_told_with_those_that_have_one(
    bare: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = find_plugin

    def found(name: str) -> Plugin:
        return replace(real(NAME), rig=None) if name == "mine" else real(name)

    monkeypatch.setattr(lab, "find_plugin", found)
    with pytest.raises(UsageError, match=r"'mine' has no rig\. Rigs: .*ratelimiter"):
        await rig_up(bare, "mine")


@pytest.mark.parametrize("use", [rig_up, own_rig, rig_down])
async def test_a_rig_of_something_unknown_is_refused(bare: App, use: object) -> None:
    assert callable(use)
    with pytest.raises(NotFoundError, match="'nothing'"):
        await use(bare, "nothing")


async def test_a_rig_that_is_not_there_is_taken_down_without_a_word(bare: App) -> None:
    await rig_down(bare, NAME)
    assert rigs_up(bare) == []
    assert not bare.rig_directory(NAME).exists()
    assert bare.store.entries.after(0, limit=1) == []


async def test_an_unknown_fault_is_refused_with_those_there_are() -> None:
    with pytest.raises(NotFoundError, match="'fire'") as caught:
        fault_of(NAME, "fire")
    assert "node_kill" in caught.value.next_step
    assert fault_of(NAME, "node_kill").name == "node_kill"


async def test_a_status_is_data_for_programs(app: App) -> None:
    from operator_sre.codec import to_json

    document = to_json(await rig_report(app, NAME))
    assert json.loads(json.dumps(document))["subject"] == NAME
