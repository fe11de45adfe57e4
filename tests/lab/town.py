"""A rig of tiny nodes for tests of what can be done to a rig, and who reaches whom in it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from operator_lab.rig import ProcessStatus, Rig
from operator_lab.startup import answers
from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.domain.target import Process, Target

__all__ = [
    "NODE_SCRIPT",
    "OUTSIDE",
    "STORED",
    "STORED_SLEEPER",
    "TOWN",
    "VOLUME_MB",
    "port_of",
    "process_of_target",
    "status_of",
    "target_of",
    "town_node",
    "wrong_about",
]

NODE_SCRIPT = str(Path(__file__).with_name("tiny_node.py"))
TRIES_MAX = 5
Pair = tuple[str, str]
# Whoever is not a process of the rig: a monitor, a person.
OUTSIDE = ""


def town_node(
    name: str, *, linked: bool = True, ports: tuple[str, ...] = (), volume_mb: int = 0
) -> ProcessSpec:
    """One tiny node that needs nobody."""
    also = tuple(word for port in ports for word in ("--also", f"{{port:{port}}}"))
    argv = (sys.executable, NODE_SCRIPT, "{port}", *also)
    return ProcessSpec(
        *(name, "node", argv),
        ready_path="/health",
        linked=linked,
        ports=ports,
        volume_mb=volume_mb,
    )


TOWN = RigSpec(
    "town",
    (
        town_node("ash", ports=("peer",)),
        town_node("birch"),
        town_node("cedar", volume_mb=8),
        town_node("elm", linked=False),
    ),
)


# Two volumes with a size; one belongs to somebody who is not root.
VOLUME_MB = 4
STORED_SLEEPER = ProcessSpec(
    "elm",
    "sleeper",
    ("sh", "-c", "touch {volume}/ready; exec sleep 300"),
    ready_argv=("test", "-e", "{volume}/ready"),
    volume_mb=VOLUME_MB,
    unprivileged=True,
)
STORED = RigSpec("stored", (town_node("ash", volume_mb=VOLUME_MB), STORED_SLEEPER))


def target_of(rig: Rig, name: str) -> Target:
    """One of its targets."""
    return next(target for target in rig.targets() if target.name == name)


def port_of(rig: Rig, name: str) -> int:
    """Where a target is reached."""
    port = target_of(rig, name).port
    assert port is not None
    return port


def process_of_target(rig: Rig, name: str) -> Process:
    """The last process of a target."""
    process = target_of(rig, name).process
    assert process is not None
    return process


def status_of(rig: Rig, name: str) -> ProcessStatus:
    """How one of its processes is."""
    return next(each for each in rig.status().processes if each.name == name)


async def wrong_about(rig: Rig, expected: Mapping[Pair, bool], *, anew: bool = True) -> list[Pair]:
    """The pairs of which the first does not reach the second as expected; all tried at once.

    A process of the rig is asked on its own port, which no rule is about. What has to pass may
    take several tries on a busy machine; what must not pass gets a single one to do so.
    """
    ports = rig.manifest().ports
    how = "ask-anew" if anew else "ask"

    async def passes(source: str, destination: str) -> bool:
        port = port_of(rig, destination)
        if source == OUTSIDE:
            return await answers(port, path="/health")
        return await answers(ports[source], path=f"/{how}/{port}")

    async def is_wrong(pair: Pair) -> bool:
        for _ in range(TRIES_MAX if expected[pair] else 1):
            if await passes(*pair):
                return not expected[pair]
        return expected[pair]

    wrong = await asyncio.gather(*(is_wrong(pair) for pair in expected))
    return [pair for pair, is_so in zip(expected, wrong, strict=True) if is_so]
