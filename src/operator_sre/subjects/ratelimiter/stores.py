"""Looking at a store, a replica or a sentinel by its own protocol; bounded, and without KEYS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import OperatorError
from operator_sre.subjects.ratelimiter.info import store_readings
from operator_sre.subjects.ratelimiter.nodes import sentence, unreachable
from operator_sre.subjects.ratelimiter.resp import NonsenseError, Refusal, Reply, Wire, connected

__all__ = ["SETTINGS", "Asking", "StoreLook", "look_at_store", "password_of"]

# What two stores of one limiter have in common, and what a remedy may put back.
SETTINGS = (
    *("maxmemory", "maxmemory-policy", "min-replicas-to-write", "appendonly"),
    *("maxclients", "stop-writes-on-bgsave-error"),
)
SCAN_PAGE_KEYS = 200
SCAN_PAGES_MAX = 5
SAMPLE_KEYS_MAX = 300
LIMITS_MAX = 500
SUSPECTS_MAX = 20
MEMBERS_MAX = 1000
DRIFT_MAX = 5
# Whoever says one of these is there, and of the last ones more can be asked.
_SHUT = ("NOAUTH", "WRONGPASS", "NOPERM", "LOADING")
_WELL = ("PONG", *_SHUT, "BUSY", "MASTERDOWN", "MISCONF", "OOM")


@dataclass(frozen=True, slots=True)
class Asking:
    """What a look at a store has to know: the names of its keys, and what nodes say they did.

    `counted` is what nodes that answered say that the store allowed through them, by key.
    """

    prefix: str
    window_s: float
    counted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreLook:
    """One look at one store; the counts are there where it is a primary.

    `members` are those of the windows whose count differs from what nodes say.
    """

    seen: Seen
    now_us: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    endless: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)
    registered: frozenset[str] = frozenset()
    members: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    counted: bool = False

    def reading(self, name: str) -> Value:
        """One of its readings, None when it has none of that name."""
        return self.seen.readings.get(name)


async def look_at_store(
    target: Target, asking: Asking, *, timeout_s: float, secret: Callable[[str], str]
) -> StoreLook:
    """Ask one store or sentinel; whatever it does is a StoreLook."""
    kind = target.kind
    found: list[StoreLook] = []
    try:
        async with asyncio.timeout(timeout_s):
            password = password_of(target, secret)
            async with connected(target, password=password, connect_s=timeout_s) as (wire, _, auth):
                look = _answered(target, await wire.ask("PING"), auth)
                found.append(look)
                refusal = str(look.reading("refusal") or "")
                if look.seen.problem or refusal.startswith(_SHUT):
                    return look
                await _details(wire, target, asking, found)
    except TimeoutError:
        return found[-1] if found else StoreLook(_away(target, "it does not answer in time"))
    except OSError as error:
        return found[-1] if found else StoreLook(_away(target, sentence(error)))
    except NonsenseError as error:
        if not found:
            return StoreLook(Seen(target.name, {"kind": kind}, f"{error} to PING"))
    except (asyncio.IncompleteReadError, OperatorError, ValueError) as error:
        if not found:
            return StoreLook(Seen(target.name, {"kind": kind}, f"it cannot be asked: {error}"))
    return found[-1]


def password_of(target: Target, secret: Callable[[str], str]) -> str:
    """Its password, or "" where it needs none."""
    path = target.access.password_file if target.access is not None else ""
    return secret(path) if path else ""


def _answered(target: Target, said: Reply, auth: Reply) -> StoreLook:
    """What the first answer tells; whoever says anything of these is there."""
    word = said.text if isinstance(said, Refusal) else str(said)
    if not word.startswith(_WELL):
        return StoreLook(Seen(target.name, {"kind": target.kind}, f"it answered {word!r} to PING"))
    readings: dict[str, Value] = {"kind": target.kind, "reachable": True}
    # One that cannot write to its disk refuses a PING and answers everything else.
    if isinstance(said, Refusal) and not word.startswith("MISCONF"):
        readings["refusal"] = said.text[:200]
        if isinstance(auth, Refusal):
            readings["refusal"] = auth.text[:200]
    return StoreLook(Seen(target.name, readings))


def _away(target: Target, why: str) -> Seen:
    return unreachable(target.kind, target, why)


async def _details(wire: Wire, target: Target, asking: Asking, found: list[StoreLook]) -> None:
    """More and more of it, each step kept in `found`, so that a slow one does not hide the rest."""
    if target.kind == "sentinel":
        found.append(await _sentinel(wire, found[-1]))
        return
    info, role, config, time = await wire.ask_all(
        [("INFO",), ("ROLE",), ("CONFIG", "GET", *SETTINGS), ("TIME",)]
    )
    readings = store_readings(info, role, config)
    seen = Seen(target.name, {**found[-1].seen.readings, **readings})
    look = replace(found[-1], seen=seen, now_us=_microseconds(time))
    found.append(look)
    if readings.get("role") == "primary":
        found.append(await _counted(wire, look, asking))


async def _sentinel(wire: Wire, look: StoreLook) -> StoreLook:
    said = await wire.ask("SENTINEL", "MASTERS")
    rows = said if isinstance(said, list) else []
    readings: dict[str, Value] = {"primaries_watched": len(rows)}
    if rows and isinstance(rows[0], list):
        row = _pairs(rows[0])
        name = row.get("name", "")
        readings |= {
            "primary": f"{row.get('ip', '')}:{row.get('port', '')}",
            "primary_name": name,
            "primary_flags": row.get("flags", ""),
            "replicas_known": _whole(row.get("num-slaves")),
            "sentinels_known": _whole(row.get("num-other-sentinels")),
        }
        quorum = await wire.ask("SENTINEL", "CKQUORUM", name)
        readings["quorum_error"] = quorum.text[:200] if isinstance(quorum, Refusal) else ""
    seen = replace(look.seen, readings={**look.seen.readings, **readings})
    return replace(look, seen=seen)


async def _counted(wire: Wire, look: StoreLook, asking: Asking) -> StoreLook:
    keys = await _sample(wire, asking)
    window = f"{asking.prefix}:window:"
    since = look.now_us - round(asking.window_s * 1_000_000)
    asked: list[tuple[str | int, ...]] = [
        ("HSCAN", f"{asking.prefix}:limits", 0, "COUNT", LIMITS_MAX),
        ("HSCAN", f"{asking.prefix}:limits-declared", 0, "COUNT", LIMITS_MAX),
        ("HSCAN", f"{asking.prefix}:nodes", 0, "COUNT", LIMITS_MAX),
    ]
    for key in keys:
        asked += [("ZCOUNT", window + key, f"({since}", "+inf"), ("PTTL", window + key)]
    limits, declared, nodes, *rest = await wire.ask_all(asked)
    counts = {key: n for key, n in zip(keys, rest[::2], strict=True) if isinstance(n, int)}
    # PTTL says -1 of a key that never expires, and -2 of one that is gone by now.
    endless = tuple(key for key, ttl in zip(keys, rest[1::2], strict=True) if ttl == -1)
    look = replace(
        look,
        counts=counts,
        endless=endless,
        limits=_fields(limits),
        declared=_fields(declared),
        registered=frozenset(_fields(nodes)),
        counted=True,
    )
    odd = [key for key, n in counts.items() if abs(n - asking.counted.get(key, 0)) > DRIFT_MAX]
    options = ("BYSCORE", "LIMIT", 0, MEMBERS_MAX, "WITHSCORES")
    answers = await wire.ask_all(
        [("ZRANGE", window + key, f"({since}", "+inf", *options) for key in odd[:SUSPECTS_MAX]]
    )
    members = {key: _scored(said) for key, said in zip(odd, answers, strict=False)}
    return replace(look, members=members)


async def _sample(wire: Wire, asking: Asking) -> list[str]:
    """Some of the windows that exist, those that nodes speak of first; never all of a big store."""
    prefix = f"{asking.prefix}:window:"
    # The busiest keys are asked for by name; the scan finds what nobody asks for any more.
    keys = dict.fromkeys(list(asking.counted)[: SAMPLE_KEYS_MAX // 2])
    cursor = "0"
    for _ in range(SCAN_PAGES_MAX):
        pattern = "".join(f"\\{sign}" if sign in "\\*?[]^-" else sign for sign in prefix) + "*"
        said = await wire.ask("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_PAGE_KEYS)
        if not isinstance(said, list) or len(said) != 2 or not isinstance(said[1], list):
            break
        cursor = str(said[0])
        keys |= dict.fromkeys(str(name).removeprefix(prefix) for name in said[1])
        if cursor == "0" or len(keys) >= SAMPLE_KEYS_MAX:
            break
    return list(keys)[:SAMPLE_KEYS_MAX]


def _fields(said: Reply) -> dict[str, str]:
    """The pairs of an HSCAN."""
    inner = said[1] if isinstance(said, list) and len(said) == 2 else None
    return _pairs(inner) if isinstance(inner, list) else {}


def _pairs(flat: Sequence[Reply]) -> dict[str, str]:
    return {str(name): str(value) for name, value in zip(flat[::2], flat[1::2], strict=False)}


def _scored(said: Reply) -> tuple[tuple[str, int], ...]:
    flat = said if isinstance(said, list) else []
    return tuple(
        (str(member), int(float(str(score))))
        for member, score in zip(flat[::2], flat[1::2], strict=False)
    )


def _microseconds(said: Reply) -> int:
    if isinstance(said, list) and len(said) == 2:
        return int(str(said[0])) * 1_000_000 + int(str(said[1]))
    raise ValueError("it does not say what time it is")


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
