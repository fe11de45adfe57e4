"""The ways to break a rate limiter: faults of any rig, and its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.faults import (
    cut_fault,
    fill_fault,
    flood_fault,
    kill_fault,
    limit_fault,
    occupy_fault,
    pause_fault,
    slow_fault,
)
from operator_protocols.kit.resp import Reply
from operator_protocols.ports import Ability, CorrectOutcome, Fault, Scene
from operator_sre.subjects.ratelimiter.nodes import TalkError, api, in_path
from operator_sre.subjects.ratelimiter.rig import CONFIGURATION, PRIMARY_NAME
from operator_sre.subjects.ratelimiter.stores import command, role_of

__all__ = ["FAULTS", "ask", "primary_of", "read_file"]

# A check takes two of these, and more than 100 ms is too slow; opening a connection takes eight,
# and must not take longer than a node waits for its store.
DELAY_S = 0.06
# A node holds more connections than that already, so it can accept no new one.
FILES = 8
# Room for some seconds of writes; with none at all, no one could see who used up the last of it.
LEFT_BYTES = 16 << 10
# Less than a store that holds anything has.
MEMORY_BYTES = 16 << 20
WORK_BYTES = 32 << 20
PREFIX = str(CONFIGURATION["key_prefix"])
PAUSE_MS = 3_600_000
DAY_US = 86_400_000_000
FEW_BYTES = 1 << 20
STRANGE_MEMBERS = 40
ENDLESS_KEYS = 8
REPLICAS_TOO_MANY = 3
CONFIGURATION_FILE = "node.json"
PASSWORD_FILE = "store-password"
OTHER_LIMIT = 25
OTHER_PREFIX = "limiter"
TIGHT_LIMIT = 2
TIGHT_KEYS = tuple(f"tenant-{at}" for at in range(10, 15))
ODD_KEY, ODD_LIMIT, ODD_STORED = "tenant-40", 60, 100_000
HOT_KEY, HOT_CHECKS, HOT_CALLERS = "tenant-70", 1200, 12
HOT_SHARE = 0.5


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


async def _api(target: Target, method: str, path: str, body: Any = None) -> dict[str, Any]:
    try:
        return await api(target, method, path, secret=read_file, body=body)
    except TalkError as problem:
        raise RigError(str(problem)) from problem


async def _explain_refusal(scene: Scene) -> str:
    """Why the store of the notes takes no writes, by trying; "" for a writable store or replica."""
    target = scene.of(scene.notes["at"])
    if await role_of(target, secret=read_file) != "primary":
        return ""
    try:
        words = ("SET", f"{PREFIX}:trial", secrets.token_hex(4), "PX", 1000)
        await command(target, [words], secret=read_file, timeout_s=2.0)
    except TalkError as problem:
        return str(problem)
    return ""


def _memory_limit() -> Fault:
    plain = limit_fault(
        *("memory_limit", "replica"),
        breaks=("redis_disconnected", "replication"),
        memory_bytes=MEMORY_BYTES,
    )

    async def inject(scene: Scene) -> Mapping[str, str]:
        notes = await plain.inject(scene)
        # Whether a process that may have no more memory notices is up to what it is asked to do.
        with contextlib.suppress(RigError):
            await ask(scene.target, "ECHO", "x" * WORK_BYTES)
        return notes

    return replace(plain, inject=inject)


def _nodes_kill() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        names = [node.name for node in scene.of_kind("node")]
        at = names.index(scene.target.name)
        chosen = (names[at], names[(at + 1) % len(names)])
        for name in chosen:
            await scene.rig.kill(name)
        return {"names": " ".join(chosen)}

    def find_stopped(scene: Scene) -> list[str]:
        names = scene.notes["names"].split()
        return [name for name in names if Ability.KILL in scene.rig.damage(name)]

    async def heal(scene: Scene) -> None:
        for name in find_stopped(scene):
            await scene.rig.restart(name)

    async def oracle(scene: Scene) -> str:
        return f"{' and '.join(find_stopped(scene))} do not run" if find_stopped(scene) else ""

    sentence = "Two nodes are killed."
    return Fault("nodes_kill", sentence, "node", ("node_down",), inject, heal, oracle)


def _node_configuration(
    name: str,
    sentence: str,
    changes: Mapping[str, object],
    breaks: tuple[str, ...],
    tight_keys: tuple[str, ...] = (),
) -> Fault:
    """One node is configured otherwise, and these keys have a tight limit at all of them."""

    def file_of(scene: Scene) -> Path:
        return Path(scene.target.log).parent / CONFIGURATION_FILE

    async def inject(scene: Scene) -> Mapping[str, str]:
        others = [node for node in scene.of_kind("node") if node.name != scene.target.name]
        for key in tight_keys:
            await _api(others[0], "PUT", f"/limits/{in_path(key)}", {"limit": TIGHT_LIMIT})
            await _api(others[0], "DELETE", f"/counters/{in_path(key)}")
        before = await asyncio.to_thread(read_file, str(file_of(scene)))
        text = json.dumps({**json.loads(before), **changes}, indent=1)
        await asyncio.to_thread(file_of(scene).write_text, text, encoding="utf-8")
        await scene.rig.restart(scene.target.name)
        return {"before": before}

    async def heal(scene: Scene) -> None:
        before = scene.notes["before"]
        now = await asyncio.to_thread(read_file, str(file_of(scene)))
        # The repair may have happened meanwhile; then the node keeps running.
        if json.loads(now) != json.loads(before):
            await asyncio.to_thread(file_of(scene).write_text, before, encoding="utf-8")
            await scene.rig.restart(scene.target.name)
        elif Ability.KILL in scene.rig.damage(scene.target.name):
            await scene.rig.restart(scene.target.name)
        for key in tight_keys:
            await _api(scene.target, "DELETE", f"/limits/{in_path(key)}")

    async def oracle(scene: Scene) -> str:
        try:
            config = await _api(scene.target, "GET", "/config")
        except RigError as problem:
            return str(problem)
        odd = [name for name, value in CONFIGURATION.items() if config.get(name) != value]
        return f"{scene.target.name} has another {', '.join(odd)}" if odd else ""

    return Fault(name, sentence, "node", breaks, inject, heal, oracle)


def _wrong_password() -> Fault:
    def file_of(scene: Scene) -> Path:
        return Path(scene.target.log).parent / PASSWORD_FILE

    async def write(scene: Scene, password: str) -> None:
        await asyncio.to_thread(file_of(scene).write_text, password + "\n", encoding="utf-8")
        await scene.rig.restart(scene.target.name)

    async def inject(scene: Scene) -> Mapping[str, str]:
        await write(scene, (await asyncio.to_thread(read_file, str(file_of(scene))))[::-1])
        return {}

    async def heal(scene: Scene) -> None:
        home = Path(scene.of_kind("store")[0].log).parent
        await write(scene, await asyncio.to_thread(read_file, str(home / "password")))

    async def oracle(scene: Scene) -> str:
        try:
            health = await _api(scene.target, "GET", "/health")
        except RigError as problem:
            return str(problem)
        return "" if health.get("store_connected") else f"{health.get('store_error')}"

    return Fault(
        "wrong_password",
        "One node has a password that its store rejects.",
        *("node", ("redis_disconnected",), inject, heal, oracle),
        CorrectOutcome.ESCALATED,  # a credential is given by people
    )


def _limit_drift() -> Fault:
    path = f"/limits/{in_path(ODD_KEY)}"

    async def inject(scene: Scene) -> Mapping[str, str]:
        """A manager gave a key its limit, and another client wrote another into the store."""
        await _api(scene.of_kind("node")[0], "PUT", path, {"limit": ODD_LIMIT})
        await ask(await primary_of(scene), "HSET", f"{PREFIX}:limits", ODD_KEY, ODD_STORED)
        return {}

    async def heal(scene: Scene) -> None:
        await _api(scene.of_kind("node")[0], "DELETE", path)

    async def oracle(scene: Scene) -> str:
        stored = await ask(await primary_of(scene), "HGET", f"{PREFIX}:limits", ODD_KEY)
        return f"the limit of {ODD_KEY} is {stored}" if stored == str(ODD_STORED) else ""

    sentence = "The limit of one key was changed directly in the store."
    breaks = ("configuration_drift",)
    return Fault("limit_drift", sentence, "store", breaks, inject, heal, oracle)


def _hot_key() -> Fault:
    async def hammer(target: Target) -> None:
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

    async def inject(scene: Scene) -> Mapping[str, str]:
        nodes = scene.of_kind("node")
        try:
            callers = (hammer(nodes[at % len(nodes)]) for at in range(HOT_CALLERS))
            await asyncio.gather(*callers)
        except (OSError, EOFError, ValueError, IndexError) as problem:
            raise RigError(f"The nodes do not take the traffic: {problem}.") from problem
        return {}

    async def heal(scene: Scene) -> None:
        await _api(scene.of_kind("node")[0], "DELETE", f"/blocks/{in_path(HOT_KEY)}")

    async def oracle(scene: Scene) -> str:
        blocked = await ask(await primary_of(scene), "HEXISTS", f"{PREFIX}:blocks", HOT_KEY)
        tally = await _api(scene.of_kind("node")[0], "GET", "/tally")
        hot = next((row["asked"] for row in tally["keys"] if row["key"] == HOT_KEY), 0)
        if blocked or hot <= HOT_SHARE * max(1, tally["asked"]):
            return ""
        return f"{HOT_KEY} takes {hot} of {tally['asked']} checks"

    sentence = "One caller sends more requests for one key than all others together."
    return Fault("hot_key", sentence, "store", ("hot_key",), inject, heal, oracle)


def _store_setting(
    name: str, sentence: str, setting: str, value: str, breaks: tuple[str, ...]
) -> Fault:
    """One setting of the primary is changed by hand."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        primary = await primary_of(scene)
        reply = await ask(primary, "CONFIG", "GET", setting)
        if not isinstance(reply, list) or len(reply) != 2:
            raise RigError(f"{primary.name} does not say its {setting}.")
        await ask(primary, "CONFIG", "SET", setting, value)
        return {"at": primary.name, "before": str(reply[1])}

    async def heal(scene: Scene) -> None:
        await ask(scene.of(scene.notes["at"]), "CONFIG", "SET", setting, scene.notes["before"])

    return Fault(name, sentence, "store", breaks, inject, heal, _explain_refusal)


def _store_blocked() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        primary = await primary_of(scene)
        await ask(primary, "CLIENT", "PAUSE", PAUSE_MS, "WRITE")
        return {"at": primary.name}

    async def heal(scene: Scene) -> None:
        await ask(scene.of(scene.notes["at"]), "CLIENT", "UNPAUSE")

    sentence = "A command pauses every write at the store."
    breaks = ("store_refuses_writes", "high_latency", "redis_disconnected")
    return Fault("store_blocked", sentence, "store", breaks, inject, heal, _explain_refusal)


def _replica_promoted() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        primary = await primary_of(scene)
        if primary.name == scene.target.name:
            raise RigError(f"{scene.target.name!r} is the primary already.")
        await ask(scene.target, "REPLICAOF", "NO", "ONE")
        # They would take the promotion back; a reset lets them forget that there was a replica.
        for sentinel in scene.of_kind("sentinel"):
            await ask(sentinel, "SENTINEL", "RESET", PRIMARY_NAME)
        return {"primary": primary.name}

    async def heal(scene: Scene) -> None:
        if await role_of(scene.target, secret=read_file) == "primary":
            primary = scene.of(scene.notes["primary"])
            await ask(scene.target, "REPLICAOF", primary.host, primary.port or 0)

    async def oracle(scene: Scene) -> str:
        try:
            primary = await primary_of(scene)
        except RigError as problem:
            return str(problem)
        role = await ask(primary, "ROLE")
        replicas = role[2] if isinstance(role, list) and len(role) > 2 else []
        return "" if replicas else f"{primary.name} has no replica"

    sentence = "The replica was made a second primary by hand."
    breaks = ("primary_count", "replication", "sentinel_view")
    return Fault("replica_promoted", sentence, "replica", breaks, inject, heal, oracle)


def _counter_drift() -> Fault:
    """Requests dated tomorrow: they never leave the window, and no client ever made them."""

    async def find_busy_key(target: Target) -> str:
        page = await ask(target, "SCAN", 0, "MATCH", f"{PREFIX}:window:*", "COUNT", 500)
        names = page[1] if isinstance(page, list) and len(page) == 2 else []
        for name in sorted(map(str, names if isinstance(names, list) else [])):
            count = await ask(target, "ZCARD", name)
            if isinstance(count, int) and count >= 1:
                return name
        raise RigError("No key is asked for at the moment.", next_step="Wait for the load.")

    async def inject(scene: Scene) -> Mapping[str, str]:
        primary = await primary_of(scene)
        window = await find_busy_key(primary)
        time = await ask(primary, "TIME")
        if not isinstance(time, list):
            raise RigError(f"{primary.name} does not say what time it is.")
        later_us = int(str(time[0])) * 1_000_000 + DAY_US
        origin = f"node-1:{secrets.token_hex(6)}"
        pairs = ((later_us + at, f"{origin}:{at}") for at in range(STRANGE_MEMBERS))
        await ask(primary, "ZADD", window, *(word for pair in pairs for word in pair))
        return {"window": window, "origin": origin}

    async def find_strange(scene: Scene, primary: Target) -> list[str]:
        reply = await ask(primary, "ZRANGE", scene.notes["window"], 0, -1)
        members = map(str, reply if isinstance(reply, list) else [])
        return [member for member in members if member.startswith(scene.notes["origin"])]

    async def heal(scene: Scene) -> None:
        primary = await primary_of(scene)
        if members := await find_strange(scene, primary):
            await ask(primary, "ZREM", scene.notes["window"], *members)

    async def oracle(scene: Scene) -> str:
        members = await find_strange(scene, await primary_of(scene))
        return f"{len(members)} requests that no caller made are still counted" if members else ""

    sentence = "The counter of one key holds requests that no caller made."
    return Fault("counter_drift", sentence, "store", ("counter_drift",), inject, heal, oracle)


def _keys_without_ttl() -> Fault:
    async def inject(scene: Scene) -> Mapping[str, str]:
        primary = await primary_of(scene)
        names = [f"{PREFIX}:window:tenant-{at}" for at in range(1000, 1000 + ENDLESS_KEYS)]
        for name in names:
            await ask(primary, "ZADD", name, 1, f"node-1:{secrets.token_hex(6)}:0")
        return {"names": " ".join(names)}

    async def heal(scene: Scene) -> None:
        await ask(await primary_of(scene), "DEL", *scene.notes["names"].split())

    async def oracle(scene: Scene) -> str:
        primary, names = await primary_of(scene), scene.notes["names"].split()
        endless = [name for name in names if await ask(primary, "PTTL", name) == -1]
        return f"{len(endless)} windows never expire" if endless else ""

    sentence = "Some windows never expire."
    return Fault("keys_without_ttl", sentence, "store", ("keys_without_ttl",), inject, heal, oracle)


_LATENCY = slow_fault(
    "latency", "node", breaks=("high_latency",), delay_s=DELAY_S, others=("store", "replica")
)
FAULTS: tuple[Fault, ...] = (
    kill_fault("node_kill", "node", breaks=("node_down",)),
    pause_fault("node_pause", "node", breaks=("node_down", "high_latency")),
    kill_fault("store_kill", "store", breaks=("redis_disconnected", "replication")),
    pause_fault(
        "store_pause", "store", breaks=("redis_disconnected", "high_latency", "replication")
    ),
    kill_fault("replica_kill", "replica", breaks=("redis_disconnected", "replication")),
    pause_fault("replica_pause", "replica", breaks=("redis_disconnected", "replication")),
    kill_fault("sentinel_kill", "sentinel", breaks=("sentinel_down",)),
    _LATENCY,
    replace(_LATENCY, name="node_slow"),
    cut_fault(
        *("network_partition", "node"),
        breaks=("redis_disconnected", "high_latency"),
        others=("store", "replica", "sentinel"),
    ),
    cut_fault("node_cut", "node", breaks=("node_down",)),
    cut_fault("replica_cut", "replica", breaks=("replication",), others=("store",)),
    # What lies on the disk, and whether it may go, is known to people only.
    fill_fault(
        *("disk_pressure", "store"),
        breaks=("store_refuses_writes",),
        left_bytes=LEFT_BYTES,
        end=CorrectOutcome.ESCALATED,
    ),
    limit_fault("file_limit", "node", breaks=("node_down",), files=FILES),
    _memory_limit(),
    # The same goes for whose process holds the port.
    occupy_fault("port_taken", "node", breaks=("node_down",), end=CorrectOutcome.ESCALATED),
    flood_fault("log_flood", "node", breaks=("log_size",)),
    _nodes_kill(),
    _node_configuration(
        "node_limits",
        "One node has a different default limit than the others.",
        {"default_limit": OTHER_LIMIT},
        ("limits_differ",),
    ),
    _node_configuration(
        "node_config",
        "One node rejects requests that the others allow.",
        {"on_store_loss": "fail_closed"},
        ("configuration_drift",),
    ),
    _node_configuration(
        "ghost_allowing",
        "One node counts under another prefix, and allows requests beyond their limit.",
        {"key_prefix": OTHER_PREFIX},
        ("ghost_allowing", "configuration_drift", "counter_drift"),
        TIGHT_KEYS,
    ),
    _wrong_password(),
    _limit_drift(),
    _hot_key(),
    _store_setting(
        "store_out_of_memory",
        "The memory limit of the store is below its usage.",
        *("maxmemory", str(FEW_BYTES)),
        ("store_refuses_writes", "store_memory", "configuration_drift"),
    ),
    _store_setting(
        "store_read_only",
        "The store requires more replicas for writes than there are.",
        *("min-replicas-to-write", str(REPLICAS_TOO_MANY)),
        ("store_refuses_writes", "configuration_drift"),
    ),
    _store_blocked(),
    _replica_promoted(),
    _counter_drift(),
    _keys_without_ttl(),
)
