"""Under a verdict that is wrong, a hostile program still does no harm: the kernel refuses it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable

import pytest

from operator_sre.enforcement import why_not_confined
from operator_sre.processes.runner.wire import Bounds
from tests.processes.confinement.arena import in_arena, python_for
from tests.processes.confinement.hostile import Hostile, bombs, hostile_programs

PLAIN_UID = 47_811
SMOKE_PART = 12
USERS = [
    pytest.param(0, marks=pytest.mark.skipif(os.getuid() != 0, reason="only root is root")),
    pytest.param(PLAIN_UID if os.getuid() == 0 else os.getuid()),
]
pytestmark = pytest.mark.skipif(bool(why_not_confined()), reason=why_not_confined() or "-")
# Without bounds these would hurt more than the world of the test.
TOO_HARMFUL = (
    "clear_log",
    "kill_all",
    "umount",
    "renice_user",
    "renice_own_user",
    "ioprio_own_user",
    "core_pattern",
    "clock",
    "sysctl",
    "hostname",
)


def _python(uid: int) -> str:
    return python_for(uid) or pytest.skip("there is no Python that a plain user can start")


def _chosen(programs: Iterable[Hostile], part: int) -> list[Hostile]:
    """The same ones each time: one of so many."""
    return [one for one in programs if zlib.crc32(one.name.encode()) % part == 0]


@pytest.mark.parametrize("uid", USERS)
def test_a_hostile_program_does_no_harm(uid: int) -> None:
    programs = _chosen(hostile_programs(_python(uid)), SMOKE_PART)
    assert {one.aim for one in programs} == {"write", "connect", "secret", "other"}
    assert in_arena(uid, programs) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("abi", [1, 3, 99])
@pytest.mark.parametrize("uid", USERS)
def test_no_hostile_program_does_harm(uid: int, abi: int) -> None:
    programs = list(hostile_programs(_python(uid)))
    assert len(programs) >= 300
    assert in_arena(uid, programs, abi_max=abi) == []


# What verdicts allow beyond reading files; none of it is what a hostile program goes for.
ALLOWED = {
    "network": Bounds(hosts=("192.0.2.1:9",)),
    "interfaces": Bounds(abilities=("interfaces",)),
    "echo": Bounds(hosts=("192.0.2.1",), abilities=("echo",)),
    "reading": Bounds(abilities=("files", "kernel_log", "processes")),
    "services": Bounds(sockets=("/run/docker.sock",), programs=("docker",)),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("allowed", sorted(ALLOWED))
@pytest.mark.parametrize("uid", USERS)
def test_what_a_verdict_allows_opens_nothing_else(uid: int, allowed: str) -> None:
    programs = [
        one for one in hostile_programs(_python(uid)) if one.name.endswith(("-direct", "-shell"))
    ]
    assert in_arena(uid, programs, bounds=ALLOWED[allowed]) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("uid", USERS)
def test_a_bomb_is_bounded(uid: int) -> None:
    assert in_arena(uid, bombs(_python(uid)), timeout_s=4.0) == []


def test_without_bounds_the_same_programs_do_harm() -> None:
    """Otherwise the world of the test would see nothing."""
    uid = PLAIN_UID if os.getuid() == 0 else os.getuid()
    programs = _chosen(hostile_programs(_python(uid)), SMOKE_PART)
    chosen = [one for one in programs if not one.name.startswith(TOO_HARMFUL)]
    harmed = {line.partition(":")[0] for line in in_arena(uid, chosen, is_confined=False)}
    aims = {line.partition(" ")[0] for line in harmed}
    assert aims == {"write", "connect", "secret", "other"}
    assert len(harmed) > len(chosen) / 2
