"""Faults of the store: what somebody could do to it by hand, and how to tell that it is over."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path

from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.ports import Fault, RightEnd, Scene
from operator_protocols.ports.breaking import Heal, Inject, Oracle
from operator_sre.subjects.ratelimiter.resp import Reply
from operator_sre.subjects.ratelimiter.rig import CONFIGURATION, PRIMARY_NAME
from operator_sre.subjects.ratelimiter.talking import TalkError, command, role_of

__all__ = ["STORE_FAULTS", "ask", "primary_of", "read_file", "with_work"]

PREFIX = str(CONFIGURATION["key_prefix"])
PAUSE_MS = 3_600_000
DAY_US = 86_400_000_000
FEW_BYTES = 1 << 20
WORK_BYTES = 32 << 20
STRANGE_MEMBERS = 40
ENDLESS_KEYS = 8
REPLICAS_TOO_MANY = 3


def read_file(path: str) -> str:
    """A secret of the rig, which belongs to us."""
    return Path(path).read_text(encoding="utf-8").strip()


async def ask(target: Target, *words: str | int) -> Reply:
    """One command at a store of the rig; RigError when it does not do it."""
    try:
        return (await command(target, [words], secret=read_file))[0]
    except TalkError as problem:
        raise RigError(str(problem)) from problem


async def primary_of(scene: Scene) -> Target:
    """The store that is the primary now; RigError when there is none or more than one."""
    found = [
        target
        for target in (*scene.of_kind("store"), *scene.of_kind("replica"))
        if await role_of(target, secret=read_file) == "primary"
    ]
    if len(found) != 1:
        raise RigError(f"{len(found)} stores are primaries now.", next_step="Heal the rig first.")
    return found[0]


def with_work(inject: Inject) -> Inject:
    """The same, and then the store is asked something that needs memory."""

    async def injected(scene: Scene) -> Mapping[str, str]:
        notes = await inject(scene)
        with contextlib.suppress(RigError):
            await ask(scene.target, "ECHO", "x" * WORK_BYTES)
        return notes

    return injected


def _setting(name: str, sentence: str, setting: str, value: str, breaks: tuple[str, ...]) -> Fault:
    """One setting of the primary is changed by hand."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        primary = await primary_of(scene)
        before = await _config(primary, setting)
        await ask(primary, "CONFIG", "SET", setting, value)
        return {"at": primary.name, "before": before}

    async def heal(scene: Scene) -> None:
        await ask(scene.of(scene.notes["at"]), "CONFIG", "SET", setting, scene.notes["before"])

    async def oracle(scene: Scene) -> str:
        target = scene.of(scene.notes["at"])
        if await role_of(target, secret=read_file) != "primary":
            return ""
        return await _cannot_write(target)

    return Fault(name, sentence, "store", breaks, inject, heal, oracle)


async def _config(target: Target, setting: str) -> str:
    said = await ask(target, "CONFIG", "GET", setting)
    if not isinstance(said, list) or len(said) != 2:
        raise RigError(f"{target.name} does not say its {setting}.")
    return str(said[1])


async def _cannot_write(target: Target) -> str:
    """Why a primary takes no writes, by trying; "" when it does."""
    try:
        words = ("SET", f"{PREFIX}:trial", secrets.token_hex(4), "PX", 1000)
        await command(target, [words], secret=read_file, timeout_s=2.0)
    except TalkError as problem:
        return str(problem)
    return ""


async def _pause(scene: Scene) -> Mapping[str, str]:
    primary = await primary_of(scene)
    await ask(primary, "CLIENT", "PAUSE", PAUSE_MS, "WRITE")
    return {"at": primary.name}


async def _unpause(scene: Scene) -> None:
    await ask(scene.of(scene.notes["at"]), "CLIENT", "UNPAUSE")


async def _paused(scene: Scene) -> str:
    target = scene.of(scene.notes["at"])
    if await role_of(target, secret=read_file) != "primary":
        return ""
    return await _cannot_write(target)


async def _promote(scene: Scene) -> Mapping[str, str]:
    primary = await primary_of(scene)
    if primary.name == scene.target.name:
        raise RigError(f"{scene.target.name!r} is the primary already.")
    await ask(scene.target, "REPLICAOF", "NO", "ONE")
    # They would take the promotion back; a reset lets them forget that there was a replica.
    for sentinel in scene.of_kind("sentinel"):
        await ask(sentinel, "SENTINEL", "RESET", PRIMARY_NAME)
    return {"primary": primary.name}


async def _demote(scene: Scene) -> None:
    if await role_of(scene.target, secret=read_file) == "primary":
        primary = scene.of(scene.notes["primary"])
        await ask(scene.target, "REPLICAOF", primary.host, primary.port or 0)


async def _two_primaries(scene: Scene) -> str:
    try:
        primary = await primary_of(scene)
    except RigError as problem:
        return str(problem)
    said = await ask(primary, "ROLE")
    replicas = said[2] if isinstance(said, list) and len(said) > 2 else []
    return "" if replicas else f"{primary.name} has no replica"


async def _busy_key(target: Target, least: int = 1) -> str:
    """A key that is asked for at the moment."""
    said = await ask(target, "SCAN", 0, "MATCH", f"{PREFIX}:window:*", "COUNT", 500)
    names = said[1] if isinstance(said, list) and len(said) == 2 else []
    for name in sorted(map(str, names if isinstance(names, list) else [])):
        count = await ask(target, "ZCARD", name)
        if isinstance(count, int) and count >= least:
            return name
    raise RigError("No key is asked for at the moment.", next_step="Wait for the load.")


async def _add_strange(scene: Scene) -> Mapping[str, str]:
    """Requests of tomorrow: they never leave the window, and nobody ever made them."""
    primary = await primary_of(scene)
    window = await _busy_key(primary)
    time = await ask(primary, "TIME")
    if not isinstance(time, list):
        raise RigError(f"{primary.name} does not say what time it is.")
    later_us = int(str(time[0])) * 1_000_000 + DAY_US
    origin = f"node-1:{secrets.token_hex(6)}"
    pairs = [word for at in range(STRANGE_MEMBERS) for word in (later_us + at, f"{origin}:{at}")]
    await ask(primary, "ZADD", window, *pairs)
    return {"window": window, "origin": origin}


async def _remove_strange(scene: Scene) -> None:
    primary, window = await primary_of(scene), scene.notes["window"]
    members = await _strange(scene, primary)
    if members:
        await ask(primary, "ZREM", window, *members)


async def _still_strange(scene: Scene) -> str:
    members = await _strange(scene, await primary_of(scene))
    return f"{len(members)} requests that nobody made are still counted" if members else ""


async def _strange(scene: Scene, primary: Target) -> list[str]:
    said = await ask(primary, "ZRANGE", scene.notes["window"], 0, -1)
    members = map(str, said if isinstance(said, list) else [])
    return [member for member in members if member.startswith(scene.notes["origin"])]


async def _add_endless(scene: Scene) -> Mapping[str, str]:
    primary = await primary_of(scene)
    names = [f"{PREFIX}:window:tenant-{at}" for at in range(1000, 1000 + ENDLESS_KEYS)]
    for name in names:
        await ask(primary, "ZADD", name, 1, f"node-1:{secrets.token_hex(6)}:0")
    return {"names": " ".join(names)}


async def _remove_endless(scene: Scene) -> None:
    await ask(await primary_of(scene), "DEL", *scene.notes["names"].split())


async def _still_endless(scene: Scene) -> str:
    primary = await primary_of(scene)
    endless = [n for n in scene.notes["names"].split() if await ask(primary, "PTTL", n) == -1]
    return f"{len(endless)} windows never expire" if endless else ""


def _store(
    name: str,
    sentence: str,
    breaks: tuple[str, ...],
    inject: Inject,
    heal: Heal,
    oracle: Oracle,
    *,
    kind: str = "store",
    end: RightEnd = RightEnd.MITIGATED,
) -> Fault:
    return Fault(name, sentence, kind, breaks, inject, heal, oracle, end)


STORE_FAULTS: tuple[Fault, ...] = (
    _setting(
        "store_out_of_memory",
        "The store may have less memory than it holds.",
        "maxmemory",
        str(FEW_BYTES),
        ("store_refuses_writes", "store_memory", "configuration_drift"),
    ),
    _setting(
        "store_read_only",
        "The store wants more replicas than there are before it writes.",
        "min-replicas-to-write",
        str(REPLICAS_TOO_MANY),
        ("store_refuses_writes", "configuration_drift"),
    ),
    _store(
        "store_blocked",
        "A command holds back every write at the store.",
        ("store_refuses_writes", "high_latency", "redis_disconnected"),
        _pause,
        _unpause,
        _paused,
    ),
    _store(
        "replica_promoted",
        "The replica was made a second primary by hand.",
        ("primary_count", "replication", "sentinel_view"),
        _promote,
        _demote,
        _two_primaries,
        kind="replica",
    ),
    _store(
        "counter_drift",
        "The window of one key holds requests that nobody made.",
        ("counter_drift",),
        _add_strange,
        _remove_strange,
        _still_strange,
    ),
    _store(
        "keys_without_ttl",
        "Some windows never expire.",
        ("keys_without_ttl",),
        _add_endless,
        _remove_endless,
        _still_endless,
    ),
)
