"""Only so many trials are measured at a time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from operator_evals.app import stage as staging
from operator_evals.app.stage import GO, LEFT, READY, Stage, Staged, ahead_of
from operator_evals.facts import TicketFact
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio
WAIT_S_MAX = 10.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "POLL_S", 0.001)


@dataclass
class Variant:
    """Notes what is done with it; it checks the rig when it is asked for the third time."""

    asked: int = 0
    done: list[str] = field(default_factory=list)

    async def start(self) -> None:
        self.done.append("start")

    def watching(self) -> bool:
        self.asked += 1
        return self.asked > 2

    def tickets(self) -> list[TicketFact]:
        return []

    async def stop(self) -> None:
        self.done.append("stop")


def _folders(place: Path, count: int) -> list[Path]:
    found = [place / str(number) for number in range(count)]
    for folder in found:
        folder.mkdir()
    return found


async def _wait_until_there(*marks: Path) -> None:
    await eventually(lambda: any(mark.exists() for mark in marks), within_s=WAIT_S_MAX)


async def test_who_is_ready_waits_until_another_leaves(tmp_path: Path) -> None:
    stage, folders = Stage(1), _folders(tmp_path, 3)
    async with AsyncExitStack() as stack:
        for folder in folders:
            await stack.enter_async_context(stage.attend(folder))
        for folder in folders[:2]:
            (folder / READY).touch()
        seen: list[Path] = []
        for _ in range(2):
            await _wait_until_there(*(each / GO for each in folders if each not in seen))
            (on_stage,) = [each for each in folders if (each / GO).exists() and each not in seen]
            seen.append(on_stage)
            (on_stage / LEFT).touch()
        assert sorted(seen) == folders[:2], "one after the other"
        assert not (folders[2] / GO).exists(), "it is not ready"


async def test_a_trial_that_dies_on_stage_frees_its_place(tmp_path: Path) -> None:
    stage, (dead, waiting) = Stage(1), _folders(tmp_path, 2)
    (dead / READY).touch()

    async def die() -> None:
        async with stage.attend(dead):
            await _wait_until_there(dead / GO)
            raise OSError("died")

    with pytest.raises(OSError, match="died"):
        await die()
    (waiting / READY).touch()
    async with stage.attend(waiting):
        await _wait_until_there(waiting / GO)


async def test_a_variant_is_ready_when_it_has_checked_the_rig(tmp_path: Path) -> None:
    variant = Variant()

    async def prepare() -> None:
        variant.done.append("prepare")

    staged = Staged(variant, tmp_path, WAIT_S_MAX, prepare)
    starting = asyncio.create_task(staged.start())
    await _wait_until_there(tmp_path / READY)
    assert (variant.asked, variant.done, starting.done()) == (3, ["start", "prepare"], False)
    (tmp_path / GO).touch()
    await asyncio.wait_for(starting, WAIT_S_MAX)
    assert staged.waited_s >= 0.0
    await staged.stop()
    assert (tmp_path / LEFT).exists()
    assert variant.done == ["start", "prepare", "stop"]


async def test_a_variant_that_checks_nothing_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async def prepare() -> None:
        """There is nothing to prepare."""

    staged = Staged(Variant(asked=-(10**9)), tmp_path, 0.01, prepare)
    starting = asyncio.create_task(staged.start())
    await _wait_until_there(tmp_path / READY)
    (tmp_path / GO).touch()
    await asyncio.wait_for(starting, WAIT_S_MAX)


async def test_every_place_has_a_trial_that_prepares() -> None:
    assert [ahead_of(places) for places in (1, 2, 4, 8)] == [1, 2, 3, 6]
