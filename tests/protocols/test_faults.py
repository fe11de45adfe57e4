"""Faults that any rig can have: what each does, undoes and needs, on a rig that only pretends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols import faults
from operator_protocols.domain.target import Process, Target
from operator_protocols.faults import (
    answers,
    cut_fault,
    fill_fault,
    flood_fault,
    kill_fault,
    limit_fault,
    occupy_fault,
    only_at,
    pause_fault,
    slow_fault,
)
from operator_protocols.ports import Abilities, Ability, CorrectOutcome, Fault, Scene
from tests.contract.servers import closes, serving, unused_port

pytestmark = pytest.mark.asyncio

SOMEBODY = Process(4, 2.0)


@dataclass
class Pretended:
    """A rig that notes what is asked of it, and lets only what it was told be undone."""

    calls: list[tuple[object, ...]] = field(default_factory=list)
    hurts: dict[str, set[Ability]] = field(default_factory=dict)
    cannot: dict[Ability, str] = field(default_factory=dict)
    able: frozenset[str] = frozenset()

    def unable(self, target: str, ability: Ability, others: tuple[str, ...] = ()) -> str:
        able = target in self.able or (others and self.able.issuperset(others))
        return "" if able else self.cannot.get(ability, "")

    def damage(self, target: str) -> frozenset[Ability]:
        return frozenset(self.hurts.get(target, ()))

    def _hurt(self, target: str, *abilities: Ability) -> None:
        self.hurts.setdefault(target, set()).update(abilities)

    def _mended(self, target: str, *abilities: Ability) -> None:
        self.hurts.setdefault(target, set()).difference_update(abilities)

    async def kill(self, target: str) -> None:
        self.calls.append(("kill", target))
        self._hurt(target, Ability.KILL)
        self._mended(target, Ability.PAUSE, Ability.LIMIT)

    async def restart(self, target: str) -> Process:
        assert Ability.OCCUPY not in self.damage(target), "somebody else has its port"
        assert Ability.FILL not in self.damage(target), "it cannot start on a full disk"
        self.calls.append(("restart", target))
        self._mended(target, Ability.KILL, Ability.PAUSE, Ability.LIMIT)
        return SOMEBODY

    async def pause(self, target: str) -> None:
        self.calls.append(("pause", target))
        self._hurt(target, Ability.PAUSE)

    async def resume(self, target: str) -> Process:
        assert Ability.KILL not in self.damage(target), "the dead do not go on"
        self.calls.append(("resume", target))
        self._mended(target, Ability.PAUSE)
        return SOMEBODY

    async def cut(self, target: str, others: tuple[str, ...] = ()) -> None:
        self.calls.append(("cut", target, others))
        self._hurt(target, Ability.CUT)

    async def reconnect(self, target: str, others: tuple[str, ...] = ()) -> None:
        self.calls.append(("reconnect", target, others))
        self._mended(target, Ability.CUT)

    async def slow(self, target: str, delay_s: float, others: tuple[str, ...] = ()) -> None:
        self.calls.append(("slow", target, delay_s, others))
        self._hurt(target, Ability.SLOW)

    async def hasten(self, target: str, others: tuple[str, ...] = ()) -> None:
        self.calls.append(("hasten", target, others))
        self._mended(target, Ability.SLOW)

    async def fill(self, target: str, *, left_bytes: int = 0) -> None:
        self.calls.append(("fill", target, left_bytes))
        self._hurt(target, Ability.FILL)

    async def drain(self, target: str) -> None:
        self.calls.append(("drain", target))
        self._mended(target, Ability.FILL)

    async def limit(self, target: str, *, memory_bytes: int = 0, files: int = 0) -> None:
        self.calls.append(("limit", target, memory_bytes, files))
        self._hurt(target, Ability.LIMIT)

    async def unlimit(self, target: str) -> None:
        assert Ability.KILL not in self.damage(target), "the dead have no limits"
        self.calls.append(("unlimit", target))
        self._mended(target, Ability.LIMIT)

    async def occupy(self, target: str) -> None:
        self.calls.append(("occupy", target))
        self._hurt(target, Ability.OCCUPY, Ability.KILL)

    async def vacate(self, target: str) -> None:
        self.calls.append(("vacate", target))
        self._mended(target, Ability.OCCUPY)


@dataclass(frozen=True)
class Stage:
    """A scene that can be looked at from behind."""

    rig: Pretended
    scene: Scene


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Three nodes and two stores, all of which answer; it happens to the second node."""
    rig = Pretended()
    assert isinstance(rig, Abilities)
    async with serving(closes) as port:
        log = tmp_path / "node-2.log"
        log.write_text("it began\n")
        targets = (
            *(Target(f"node-{n}", "node", port=port, log=str(log)) for n in (1, 2, 3)),
            *(Target(f"store-{n}", "store", port=port) for n in (1, 2)),
        )
        yield Stage(rig, Scene(targets[1], targets, rig))


BREAKS = ("node_down",)
Make = Callable[[], Fault]
STORES = ("store-1", "store-2")

CASES: dict[
    str, tuple[Make, list[tuple[object, ...]], list[tuple[object, ...]], CorrectOutcome]
] = {
    "killed": (
        lambda: kill_fault("a", "node", breaks=BREAKS),
        [("kill", "node-2")],
        [("restart", "node-2")],
        CorrectOutcome.MITIGATED,
    ),
    "killed-several": (
        lambda: kill_fault("a", "node", breaks=BREAKS, count=2),
        [("kill", "node-2"), ("kill", "node-1")],
        [("restart", "node-2"), ("restart", "node-1")],
        CorrectOutcome.MITIGATED,
    ),
    "paused": (
        lambda: pause_fault("a", "node", breaks=BREAKS),
        [("pause", "node-2")],
        [("resume", "node-2")],
        CorrectOutcome.MITIGATED,
    ),
    "cut-off": (
        lambda: cut_fault("a", "node", breaks=BREAKS),
        [("cut", "node-2", ())],
        [("reconnect", "node-2", ())],
        CorrectOutcome.ESCALATED,
    ),
    "cut-off-from-a-kind": (
        lambda: cut_fault("a", "node", breaks=BREAKS, others=("store",)),
        [("cut", "node-2", STORES)],
        [("reconnect", "node-2", STORES)],
        CorrectOutcome.ESCALATED,
    ),
    "cut-off-from-its-own-kind": (
        lambda: cut_fault(
            "a", "node", breaks=BREAKS, others=("node", "store"), end=CorrectOutcome.MITIGATED
        ),
        [("cut", "node-2", ("node-1", "node-3", *STORES))],
        [("reconnect", "node-2", ("node-1", "node-3", *STORES))],
        CorrectOutcome.MITIGATED,
    ),
    "slowed": (
        lambda: slow_fault("a", "node", breaks=BREAKS, delay_s=0.5, others=("store",)),
        [("slow", "node-2", 0.5, STORES)],
        [("hasten", "node-2", STORES)],
        CorrectOutcome.ESCALATED,
    ),
    "filled": (
        lambda: fill_fault("a", "node", breaks=BREAKS, left_bytes=10),
        [("fill", "node-2", 10)],
        [("drain", "node-2")],
        CorrectOutcome.MITIGATED,
    ),
    "limited": (
        lambda: limit_fault("a", "node", breaks=BREAKS, files=20),
        [("limit", "node-2", 0, 20)],
        [("unlimit", "node-2")],
        CorrectOutcome.MITIGATED,
    ),
    "occupied": (
        lambda: occupy_fault("a", "node", breaks=BREAKS),
        [("occupy", "node-2")],
        [("vacate", "node-2"), ("restart", "node-2")],
        CorrectOutcome.MITIGATED,
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_it_is_done_and_undone_and_its_oracle_knows(stage: Stage, case: str) -> None:
    make, done, undone, end = CASES[case]
    fault = make()
    assert (fault.name, fault.kind, fault.breaks, fault.end) == ("a", "node", BREAKS, end)
    assert fault.sentence.endswith(".")
    assert fault.unavailable(stage.scene) == ""
    assert await fault.oracle(stage.scene) == ""
    assert await fault.inject(stage.scene) == {}
    assert stage.rig.calls == done
    assert (await fault.oracle(stage.scene)).startswith("node-2 is still affected by: ")
    stage.rig.calls.clear()
    await fault.heal(stage.scene)
    assert stage.rig.calls == undone
    assert await fault.oracle(stage.scene) == ""
    assert not any(stage.rig.hurts.values())


@pytest.mark.parametrize("case", CASES)
async def test_a_target_that_did_not_survive_is_started_and_one_that_runs_is_not(
    stage: Stage, case: str
) -> None:
    fault = CASES[case][0]()
    await fault.inject(stage.scene)
    await stage.rig.kill("node-2")
    assert "kill" in await fault.oracle(stage.scene), "a dead one is not a healed one"
    await fault.heal(stage.scene)
    assert await fault.oracle(stage.scene) == ""
    stage.rig.hurts.clear()
    stage.rig.calls.clear()
    await fault.heal(stage.scene)  # somebody has mended it in the meantime
    assert not {"restart", "kill", "resume"} & {call[0] for call in stage.rig.calls}


@pytest.mark.parametrize("case", CASES)
async def test_one_that_does_not_answer_is_not_over(stage: Stage, case: str) -> None:
    fault = CASES[case][0]()
    with unused_port() as port:
        silent = Target("node-2", "node", port=port)
        targets = tuple(silent if t.name == "node-2" else t for t in stage.scene.targets)
        assert await fault.oracle(Scene(silent, targets, stage.rig)) == "node-2 does not answer"
        assert not await answers(silent)
    assert await answers(stage.scene.target)


@pytest.mark.parametrize("case", CASES)
async def test_it_is_not_available_where_the_lab_cannot_do_it(stage: Stage, case: str) -> None:
    fault = CASES[case][0]()
    stage.rig.cannot = dict.fromkeys(Ability, "this machine cannot")
    assert fault.unavailable(stage.scene) == "this machine cannot"


async def test_the_oracle_of_several_asks_after_each_of_them(stage: Stage) -> None:
    fault = kill_fault("a", "node", breaks=BREAKS, count=2)
    await fault.inject(stage.scene)
    await stage.rig.restart("node-2")
    assert (await fault.oracle(stage.scene)).startswith("node-1 ")
    few = kill_fault("b", "node", breaks=BREAKS, count=4)
    assert few.unavailable(stage.scene) == "there are only 3 of kind 'node'"


async def test_cut_off_from_nobody_is_not_cut_off_from_everybody(stage: Stage) -> None:
    for fault in (
        cut_fault("a", "node", breaks=BREAKS, others=("proxy",)),
        slow_fault("a", "node", breaks=BREAKS, others=("proxy",), delay_s=1.0),
    ):
        assert fault.unavailable(stage.scene) == "there is nothing else of kind 'proxy'"


async def test_a_link_of_either_side_is_enough(stage: Stage) -> None:
    fault = cut_fault("a", "node", breaks=BREAKS, others=("store",))
    stage.rig.cannot = {Ability.CUT: "it has no link"}
    stage.rig.able = frozenset({"store-1"})
    assert fault.unavailable(stage.scene) == "it has no link"
    stage.rig.able = frozenset(STORES)
    assert fault.unavailable(stage.scene) == ""
    stage.rig.able = frozenset({"node-2"})
    assert fault.unavailable(stage.scene) == ""
    assert cut_fault("a", "node", breaks=BREAKS).unavailable(stage.scene) == ""


async def test_a_fault_of_one_target_is_available_there_and_nowhere_else(stage: Stage) -> None:
    fault = kill_fault("a", "node", breaks=BREAKS, end=CorrectOutcome.ESCALATED)
    assert fault.end is CorrectOutcome.ESCALATED
    assert only_at(fault, "node-2").unavailable(stage.scene) == ""
    assert only_at(fault, "node-1").unavailable(stage.scene) == "it applies to 'node-1' only"
    stage.rig.cannot = {Ability.KILL: "it cannot be killed"}
    assert only_at(fault, "node-2").unavailable(stage.scene) == "it cannot be killed"


async def test_a_limit_on_nothing_and_a_kill_of_nobody_are_mistakes() -> None:
    with pytest.raises(ValueError, match="memory_bytes or files"):
        limit_fault("a", "node", breaks=BREAKS)
    with pytest.raises(ValueError, match="at least one"):
        kill_fault("a", "node", breaks=BREAKS, count=0)


async def test_sentences_say_what_happens() -> None:
    said = {case: make().sentence for case, (make, *_) in CASES.items()}
    assert said["killed-several"] == "Two nodes are killed."
    assert said["cut-off"] == "One node is cut off from all other processes."
    assert said["cut-off-from-its-own-kind"] == (
        "One node is cut off from every other node and every store."
    )
    assert said["slowed"] == "Messages between one node and every store take 0.5 s longer."
    both = limit_fault("a", "node", breaks=BREAKS, files=1, memory_bytes=1)
    assert both.sentence == "One node reaches its memory limit and open-file limit."


async def test_a_log_is_flooded_and_its_own_lines_stay(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "FLOOD_BYTES", 1 << 20)
    fault = flood_fault("a", "node", breaks=("log_large",))
    log = Path(stage.scene.target.log)
    assert await fault.oracle(stage.scene) == ""
    notes = await fault.inject(stage.scene)
    after = Scene(stage.scene.target, stage.scene.targets, stage.rig, notes)
    assert log.stat().st_size >= 1 << 20
    assert "log of node-2 is 1 MB long" in await fault.oracle(after)
    await fault.heal(after)
    assert log.read_text() == "it began\n"
    assert await fault.oracle(after) == ""
    await fault.heal(after)  # twice does no harm
    assert log.read_text() == "it began\n"
    log.unlink()  # rotated away by somebody
    await fault.heal(after)
    assert await fault.oracle(after) == ""
    assert await asyncio.to_thread(log.exists) is False
    mute = Scene(Target("node-2", "node"), (), stage.rig)
    assert fault.unavailable(mute) == "node-2 has no log"
