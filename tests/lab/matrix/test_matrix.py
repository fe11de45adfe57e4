"""Every fault breaks the invariant it is known by and nothing else, and heals without a trace."""

from __future__ import annotations

import random
import time

import pytest

from operator_lab.faults import broken, heal, inject, is_over, unavailable
from operator_protocols.errors import MissingExtraError, MissingProgramError
from tests.lab.matrix.stage import Case, Stage, Stages, cases

CASES = cases()
# The rate limiter is broken and healed by the tests of the command too.
SMOKE = ("etcd-node_kill", "postgres-node_kill", "tikv-pd_member_kill")
OVER_S_MAX = 20.0


def _parameters(wanted: tuple[str, ...] | None = None) -> list[object]:
    """The cases; those of one subject are for one process, so that they share its rig."""
    return [
        pytest.param(one, id=one.id, marks=pytest.mark.group(one.subject))
        for one in CASES
        if wanted is None or one.id in wanted
    ]


async def _stage(stages: Stages, case: Case) -> Stage:
    try:
        return await stages.of(case.subject)
    except (MissingExtraError, MissingProgramError) as problem:
        pytest.skip(str(problem))


async def _whole_life(stages: Stages, case: Case) -> None:
    stage = await _stage(stages, case)
    if why := unavailable(stage.rig, case.fault):
        pytest.skip(f"{case.id}: {why}")
    clean = False
    try:
        await _life(stage, case)
        clean = True
    finally:
        if not clean:
            await stages.drop(case.subject)


async def _life(stage: Stage, case: Case) -> None:
    rig, fault = stage.rig, case.fault
    await stage.until_healthy()
    before = stage.processes(but=frozenset())
    assert broken(rig) == ()

    hit = await inject(rig, fault, target=None, rng=random.Random(case.id))
    hurt = stage.hurt()
    assert hit in hurt
    others = await stage.until_violated(case, hurt)
    assert others == [], "something else broke"
    still = await is_over(rig, fault)
    assert still != "", "the oracle takes a broken rig for a healed one"
    assert still == still.strip()
    assert len(still) < 300

    (one,) = broken(rig)
    hurt |= stage.hurt()
    assert await heal(rig, fault) == hit
    await stage.until_healthy()
    assert broken(rig) == ()
    ends = time.monotonic() + OVER_S_MAX
    while still := await fault.oracle(stage.scene(one)):
        assert time.monotonic() < ends, f"healed, and its oracle says: {still}"
        await stage.look()
    left = {name: process for name, process in before.items() if name not in hurt}
    assert stage.processes(but=hurt) == left, "somebody else was started anew"


def test_there_are_faults_and_their_names_differ() -> None:
    assert {one.id for one in CASES} >= set(SMOKE)
    assert len({one.id for one in CASES}) == len(CASES)


def test_every_fault_says_what_it_breaks_and_whom() -> None:
    wrong = [
        one.id
        for one in CASES
        if not one.fault.breaks
        or len(set(one.fault.breaks)) != len(one.fault.breaks)
        or not one.fault.kind
        or not one.fault.sentence[:1].isupper()
        or not one.fault.sentence.endswith(".")
    ]
    assert wrong == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", _parameters(SMOKE))
async def test_a_few_faults_break_what_they_say_and_heal(stages: Stages, case: Case) -> None:
    await _whole_life(stages, case)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", _parameters())
async def test_every_fault_breaks_what_it_says_and_heals(stages: Stages, case: Case) -> None:
    await _whole_life(stages, case)
