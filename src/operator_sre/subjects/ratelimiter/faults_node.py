"""Faults of nodes: configuration, credentials and traffic that differ from what they should be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.ports import Ability, Fault, RightEnd, Scene
from operator_sre.subjects.ratelimiter.faults_store import PREFIX, ask, primary_of, read_file
from operator_sre.subjects.ratelimiter.rig import CONFIGURATION
from operator_sre.subjects.ratelimiter.talking import TalkError, api, in_path

__all__ = ["NODE_FAULTS"]

CONFIGURATION_FILE = "node.json"
PASSWORD_FILE = "store-password"
OTHER_LIMIT = 25
OTHER_PREFIX = "limiter"
TIGHT_LIMIT = 2
TIGHT_KEYS = tuple(f"tenant-{at}" for at in range(10, 15))
ODD_KEY, ODD_LIMIT, ODD_STORED = "tenant-40", 60, 100_000
HOT_KEY, HOT_CHECKS, HOT_CALLERS = "tenant-70", 1200, 12
HOT_SHARE = 0.5


async def _api(target: Target, method: str, path: str, body: Any = None) -> dict[str, Any]:
    try:
        return await api(target, method, path, secret=read_file, body=body)
    except TalkError as problem:
        raise RigError(str(problem)) from problem


def _home(target: Target) -> Path:
    return Path(target.log).parent


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


async def _reconfigure(scene: Scene, changes: Mapping[str, object]) -> str:
    """Change the configuration file of a node and start it anew; what the file held before."""
    file = _home(scene.target) / CONFIGURATION_FILE
    before = await asyncio.to_thread(read_file, str(file))
    await asyncio.to_thread(_write, file, json.dumps({**json.loads(before), **changes}, indent=1))
    await scene.rig.restart(scene.target.name)
    return before


async def _restore(scene: Scene) -> None:
    file = _home(scene.target) / CONFIGURATION_FILE
    now = await asyncio.to_thread(read_file, str(file))
    # Somebody may have put it right meanwhile; then the node keeps running.
    if json.loads(now) != json.loads(scene.notes["before"]):
        await asyncio.to_thread(_write, file, scene.notes["before"])
        await scene.rig.restart(scene.target.name)
    elif Ability.KILL in scene.rig.hurt(scene.target.name):
        await scene.rig.restart(scene.target.name)


async def _differs(scene: Scene) -> str:
    """In what a node differs from how all nodes were configured, by its own words."""
    try:
        said = await _api(scene.target, "GET", "/config")
    except RigError as problem:
        return str(problem)
    odd = [name for name, value in CONFIGURATION.items() if said.get(name) != value]
    return f"{scene.target.name} has another {', '.join(odd)}" if odd else ""


def _configured(
    name: str, sentence: str, changes: Mapping[str, object], breaks: tuple[str, ...]
) -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        return {"before": await _reconfigure(scene, changes)}

    return Fault(name, sentence, "node", breaks, inject, _restore, _differs)


async def _count_elsewhere(scene: Scene) -> Mapping[str, str]:
    """Some busy keys have a tight limit, and one node counts where nobody else does."""
    other = next(one for one in scene.of_kind("node") if one.name != scene.target.name)
    for key in TIGHT_KEYS:
        await _api(other, "PUT", f"/limits/{in_path(key)}", {"limit": TIGHT_LIMIT})
        await _api(other, "DELETE", f"/counters/{in_path(key)}")
    return {"before": await _reconfigure(scene, {"key_prefix": OTHER_PREFIX})}


async def _count_together(scene: Scene) -> None:
    await _restore(scene)
    for key in TIGHT_KEYS:
        await _api(scene.target, "DELETE", f"/limits/{in_path(key)}")


async def _change_password(scene: Scene) -> Mapping[str, str]:
    file = _home(scene.target) / PASSWORD_FILE
    before = await asyncio.to_thread(read_file, str(file))
    await asyncio.to_thread(_write, file, before[::-1] + "\n")
    await scene.rig.restart(scene.target.name)
    return {}


async def _restore_password(scene: Scene) -> None:
    store = scene.of_kind("store")[0]
    right = await asyncio.to_thread(read_file, str(_home(store) / "password"))
    await asyncio.to_thread(_write, _home(scene.target) / PASSWORD_FILE, right + "\n")
    await scene.rig.restart(scene.target.name)


async def _no_access(scene: Scene) -> str:
    try:
        said = await _api(scene.target, "GET", "/health")
    except RigError as problem:
        return str(problem)
    return "" if said.get("store_connected") else f"{said.get('store_error')}"


async def _change_limit(scene: Scene) -> Mapping[str, str]:
    """A manager gave a key its limit, and somebody else wrote another one into the store."""
    path = f"/limits/{in_path(ODD_KEY)}"
    await _api(scene.of_kind("node")[0], "PUT", path, {"limit": ODD_LIMIT})
    await ask(await primary_of(scene), "HSET", f"{PREFIX}:limits", ODD_KEY, ODD_STORED)
    return {}


async def _remove_limit(scene: Scene) -> None:
    await _api(scene.of_kind("node")[0], "DELETE", f"/limits/{in_path(ODD_KEY)}")


async def _limit_is_odd(scene: Scene) -> str:
    said = await ask(await primary_of(scene), "HGET", f"{PREFIX}:limits", ODD_KEY)
    return f"the limit of {ODD_KEY} is {said}" if said == str(ODD_STORED) else ""


async def _hammer(scene: Scene) -> Mapping[str, str]:
    """One caller asks for one key much more often than all others together."""
    nodes = scene.of_kind("node")

    async def call(at: int) -> None:
        target = nodes[at % len(nodes)]
        reader, writer = await asyncio.open_connection(target.host, target.port)
        body = json.dumps({"key": HOT_KEY}).encode()
        head = f"POST /check HTTP/1.1\r\nHost: node\r\nContent-Length: {len(body)}\r\n"
        try:
            for _ in range(HOT_CHECKS // HOT_CALLERS):
                writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
                answer = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = answer.split(b"content-length: ", 1)[1].split(b"\r\n")[0]
                await reader.readexactly(int(size))
        finally:
            writer.close()

    try:
        await asyncio.gather(*map(call, range(HOT_CALLERS)))
    except (OSError, EOFError, ValueError, IndexError) as problem:
        raise RigError(f"The nodes do not take the traffic: {problem}.") from problem
    return {}


async def _calm(scene: Scene) -> None:
    await _api(scene.of_kind("node")[0], "DELETE", f"/blocks/{in_path(HOT_KEY)}")


async def _is_hot(scene: Scene) -> str:
    node = scene.of_kind("node")[0]
    blocked = await ask(await primary_of(scene), "HEXISTS", f"{PREFIX}:blocks", HOT_KEY)
    tally = await _api(node, "GET", "/tally")
    asked = next((row["asked"] for row in tally["keys"] if row["key"] == HOT_KEY), 0)
    if blocked or asked <= HOT_SHARE * max(1, tally["asked"]):
        return ""
    return f"{HOT_KEY} takes {asked} of {tally['asked']} checks"


async def _kill_two(scene: Scene) -> Mapping[str, str]:
    names = [one.name for one in scene.of_kind("node")]
    at = names.index(scene.target.name)
    chosen = (names[at], names[(at + 1) % len(names)])
    for name in chosen:
        await scene.rig.kill(name)
    return {"names": " ".join(chosen)}


async def _start_two(scene: Scene) -> None:
    for name in scene.notes["names"].split():
        if Ability.KILL in scene.rig.hurt(name):
            await scene.rig.restart(name)


async def _two_are_gone(scene: Scene) -> str:
    gone = [n for n in scene.notes["names"].split() if Ability.KILL in scene.rig.hurt(n)]
    return f"{' and '.join(gone)} do not run" if gone else ""


NODE_FAULTS: tuple[Fault, ...] = (
    Fault(
        "nodes_kill",
        "Two nodes are killed.",
        "node",
        ("node_down",),
        _kill_two,
        _start_two,
        _two_are_gone,
    ),
    _configured(
        "node_limits",
        "One node has another default limit than the others.",
        {"default_limit": OTHER_LIMIT},
        ("limits_differ",),
    ),
    _configured(
        "node_config",
        "One node refuses requests where the others let them pass.",
        {"on_store_loss": "fail_closed"},
        ("configuration_drift",),
    ),
    Fault(
        "ghost_allowing",
        "One node counts where no other node looks, and lets requests pass beyond their limit.",
        "node",
        ("ghost_allowing", "configuration_drift", "counter_drift"),
        _count_elsewhere,
        _count_together,
        _differs,
    ),
    Fault(
        "wrong_password",
        "One node has a password that its store does not take.",
        "node",
        ("redis_disconnected",),
        _change_password,
        _restore_password,
        _no_access,
        # A credential is given by people.
        RightEnd.ESCALATED,
    ),
    Fault(
        "limit_drift",
        "The limit of one key was changed in the store behind the managers' back.",
        "store",
        ("configuration_drift",),
        _change_limit,
        _remove_limit,
        _limit_is_odd,
    ),
    Fault(
        "hot_key",
        "One caller asks for one key more often than all others together.",
        "store",
        ("hot_key",),
        _hammer,
        _calm,
        _is_hot,
    ),
)
