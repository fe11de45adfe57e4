"""A store, a replica or a sentinel, by its own protocol; bounded, and without KEYS."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from operator_protocols.domain.observation import Seen, Trouble, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import OperatorError
from operator_protocols.kit.access import sentence_of
from operator_protocols.kit.changes import hide_secret
from operator_protocols.kit.client import ALL_CHECKED, CLIENT_VIEW, READS_CHECKED
from operator_protocols.kit.resp import ErrorReply, ProtocolError, Reply, Wire, open_wire
from operator_protocols.kit.units import format_bytes
from operator_sre.subjects.ratelimiter.nodes import (
    ANSWER_S_MAX,
    DETAIL_CHARS_MAX,
    Secret,
    TalkError,
    unreachable,
)

__all__ = [
    "DRIFT_MAX",
    "SETTINGS",
    "Sample",
    "StoreReport",
    "command",
    "configured_of",
    "observe_store",
    "password_of",
    "role_of",
    "store_readings",
]

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
TEXT_CHARS_MAX = 300
CANARY_S_MAX = 2.0
CANARY_EXPIRES_S = 60
# What clients were answered, by the kind of error, in the statistics of a store.
ERROR_KINDS = {
    "WRONGPASS": "login",
    "NOAUTH": "login",
    "NOPERM": "permission",
    "READONLY": "read_only",
    "OOM": "no_space",
    "MISCONF": "no_space",
}
# Settings of a sentinel for its primary.
_WATCHED = ("quorum", "down-after-milliseconds", "failover-timeout", "parallel-syncs")
ROLES = {"master": "primary", "slave": "replica"}
# A store that answers with one of these is up. The first ones do not let us in; all but LOADING
# of the others can be asked for more.
_SHUT = ("NOAUTH", "WRONGPASS", "NOPERM")
_WELL = ("PONG", *_SHUT, "LOADING", "BUSY", "MASTERDOWN", "MISCONF", "OOM")


@dataclass(frozen=True, slots=True)
class Sample:
    """The input of a store's observation: the names of its keys, and the counts of the nodes.

    `counted` is how many requests the store allowed through the nodes that answered, by key. On a
    primary the key `canary` is written and read; "" writes nothing.
    """

    prefix: str
    window_s: float
    counted: Mapping[str, int] = field(default_factory=dict)
    canary: str = ""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """One observation of one store; a primary has the counts.

    `members` are the entries of the windows whose count differs from the count of the nodes,
    `errors` how often clients got which kind of error, `configured` its settings and accounts.
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
    errors: Mapping[str, int] = field(default_factory=dict)
    configured: Mapping[str, str] | None = None

    def reading(self, name: str) -> Value:
        """One of its readings, None when it has none of that name."""
        return self.seen.readings.get(name)


async def observe_store(
    target: Target, sample: Sample, *, timeout_s: float, secret: Secret
) -> StoreReport:
    """Ask one store or sentinel; whatever it does is a StoreReport."""
    found: list[StoreReport] = []
    why = ""
    try:
        async with asyncio.timeout(timeout_s):
            password = password_of(target, secret)
            async with open_wire(target, password=password, connect_s=timeout_s) as (wire, _, auth):
                await _look(wire, target, sample, auth, found)
    except OSError as error:
        late = isinstance(error, TimeoutError)
        away = "it did not answer in time" if late else sentence_of(error)
        return found[-1] if found else StoreReport(unreachable(target.kind, target, away))
    except ProtocolError as error:
        why = f"{error} to PING"
    except (asyncio.IncompleteReadError, OperatorError, ValueError) as error:
        why = f"it cannot be queried: {error}"
    if not found:
        return StoreReport(Seen(target.name, {"kind": target.kind}, why))
    return _with_readings(found[-1], {"blind_answers": why} if why else {})


def password_of(target: Target, secret: Secret) -> str:
    """Its password, or "" where it needs none."""
    path = target.access.password_file if target.access is not None else ""
    return secret(path) if path else ""


async def _look(
    wire: Wire, target: Target, sample: Sample, auth: Reply, found: list[StoreReport]
) -> None:
    """More and more of it, each step kept in `found`, so that a slow one does not hide the rest."""
    pong = await wire.ask("PING")
    word = pong.text if isinstance(pong, ErrorReply) else str(pong)
    if not word.startswith(_WELL):
        problem = f"it answered {word!r} to PING"
        found.append(StoreReport(Seen(target.name, {"kind": target.kind}, problem)))
        return
    readings: dict[str, Value] = {"kind": target.kind, "reachable": True}
    # A store that cannot write to its disk refuses a PING and answers everything else.
    if isinstance(pong, ErrorReply) and not word.startswith("MISCONF"):
        refusal = auth if isinstance(auth, ErrorReply) else pong
        readings["refusal"] = refusal.text[:200]
    if word.startswith(_SHUT):
        # It answers, but not us: what it holds and whether it serves its clients is unknown.
        known = {"kind": target.kind, "refusal": readings["refusal"]}
        problem = f"login rejected: {readings['refusal']}"
        seen = Seen(target.name, known, problem, Trouble.CREDENTIAL)
        found.append(StoreReport(seen))
        return
    found.append(StoreReport(Seen(target.name, readings)))
    if word.startswith("LOADING"):
        return
    if target.kind == "sentinel":
        more, configured = await _ask_sentinel(wire)
        seen = Seen(target.name, {**readings, **more})
        found.append(StoreReport(seen, configured=configured))
        return
    info, role, config, time, settings, accounts = await wire.ask_all(
        [
            *(("INFO",), ("ROLE",), ("CONFIG", "GET", *SETTINGS), ("TIME",)),
            *(("CONFIG", "GET", "*"), ("ACL", "LIST")),
        ]
    )
    readings = {**readings, **store_readings(info, role, config)}
    if isinstance(info, ErrorReply):
        readings["blind_info"] = info.text[:DETAIL_CHARS_MAX]
    if not isinstance(time, list) or len(time) != 2:
        raise ValueError("the time is not reported")
    now_us = int(str(time[0])) * 1_000_000 + int(str(time[1]))
    report = StoreReport(
        Seen(target.name, readings),
        now_us,
        errors=_errors_in(info),
        configured=configured_of(settings, accounts),
    )
    found.append(report)
    if readings.get("role") == "primary":
        found.append(await _count(wire, report, sample))
        found.append(_with_readings(found[-1], await _write_canary(wire, found[-1], sample.canary)))


async def _write_canary(wire: Wire, report: StoreReport, key: str) -> dict[str, Value]:
    """Write the key as a client would and read it back; a store that refuses writes is not asked.

    It is the last request of a connection, because an answer that is late is not awaited.
    """
    if not key:
        return {CLIENT_VIEW: READS_CHECKED}
    if report.reading("refuses_writes") is True:
        return {CLIENT_VIEW: ALL_CHECKED}
    mark = str(report.now_us)
    set_key = ("SET", key, mark, "EX", CANARY_EXPIRES_S)
    try:
        async with asyncio.timeout(CANARY_S_MAX):
            written, read = await wire.ask_all([set_key, ("GET", key)])
    except TimeoutError:
        error = f"no answer within {CANARY_S_MAX:g} s"
    else:
        rejected = next((each for each in (written, read) if isinstance(each, ErrorReply)), None)
        error = rejected.text[:DETAIL_CHARS_MAX] if rejected is not None else ""
        if error.startswith("NOPERM"):
            return {CLIENT_VIEW: READS_CHECKED, "blind_canary": error}
        if not error and read is None:
            error = "the written value cannot be read"
    refusal: dict[str, Value] = {CLIENT_VIEW: ALL_CHECKED, "write_error": error}
    if error:
        because = f"a write was rejected: {error}"
        refusal |= {"refuses_writes": True, "refuses_kind": "other", "refuses_because": because}
    return refusal


def _with_readings(report: StoreReport, more: Mapping[str, Value]) -> StoreReport:
    seen = replace(report.seen, readings={**report.seen.readings, **more})
    return replace(report, seen=seen) if more else report


def _errors_in(info: Reply) -> dict[str, int]:
    """How often clients got which kind of error, since the store started."""
    found = dict.fromkeys((*ERROR_KINDS.values(), "refused"), 0)
    lines = info.splitlines() if isinstance(info, str) else []
    for line in lines:
        name, _, value = line.partition(":")
        if name == "rejected_connections" and value.isdigit():
            found["refused"] += int(value)
        kind = ERROR_KINDS.get(name.removeprefix("errorstat_"), "")
        count = value.strip().removeprefix("count=")
        if name.startswith("errorstat_") and kind and count.isdigit():
            found[kind] += int(count)
    return found if lines else {}


def configured_of(settings: Reply, accounts: Reply) -> dict[str, str] | None:
    """Every setting and account, without secrets; None where it does not show them."""
    if not isinstance(settings, list):
        return None
    found = {f"setting {name}": hide_secret(name, value) for name, value in _flat_pairs(settings)}
    for account in accounts if isinstance(accounts, list) else ():
        name, *words = str(account).removeprefix("user ").split()
        hidden = [hide_secret("password", word) if word[0] in "#><!" else word for word in words]
        found[f"account {name}"] = " ".join(hidden)
    return found


async def _ask_sentinel(wire: Wire) -> tuple[dict[str, Value], dict[str, str]]:
    """Its readings, and what it watches with which settings."""
    reply = await wire.ask("SENTINEL", "MASTERS")
    rows = reply if isinstance(reply, list) else []
    readings: dict[str, Value] = {"primaries_watched": len(rows)}
    configured: dict[str, str] = {}
    if rows and isinstance(rows[0], list):
        row = _pairs(rows[0])
        name = row.get("name", "")
        readings |= {
            "primary": f"{row.get('ip', '')}:{row.get('port', '')}",
            "primary_name": name,
            "primary_flags": row.get("flags", ""),
            "replicas_known": _number(row, "num-slaves"),
            "sentinels_known": _number(row, "num-other-sentinels"),
        }
        quorum = await wire.ask("SENTINEL", "CKQUORUM", name)
        readings["quorum_error"] = quorum.text[:200] if isinstance(quorum, ErrorReply) else ""
        configured = {f"{key} of {name}": row[key] for key in _WATCHED if key in row}
    configured["primaries watched"] = str(len(rows))
    return readings, configured


async def _count(wire: Wire, report: StoreReport, sample: Sample) -> StoreReport:
    keys = await _sample_keys(wire, sample)
    window = f"{sample.prefix}:window:"
    since = report.now_us - round(sample.window_s * 1_000_000)
    commands: list[tuple[str | int, ...]] = [
        ("HSCAN", f"{sample.prefix}:limits", 0, "COUNT", LIMITS_MAX),
        ("HSCAN", f"{sample.prefix}:limits-declared", 0, "COUNT", LIMITS_MAX),
        ("HSCAN", f"{sample.prefix}:nodes", 0, "COUNT", LIMITS_MAX),
    ]
    for key in keys:
        commands += [("ZCOUNT", window + key, f"({since}", "+inf"), ("PTTL", window + key)]
    limits, declared, nodes, *rest = await wire.ask_all(commands)
    counts = {key: n for key, n in zip(keys, rest[::2], strict=True) if isinstance(n, int)}
    # PTTL is -1 for a key that never expires, and -2 for a key that is gone by now.
    endless = tuple(key for key, ttl in zip(keys, rest[1::2], strict=True) if ttl == -1)
    report = replace(
        report,
        counts=counts,
        endless=endless,
        limits=_read_scan(limits),
        declared=_read_scan(declared),
        registered=frozenset(_read_scan(nodes)),
        counted=True,
    )
    odd = [key for key, n in counts.items() if abs(n - sample.counted.get(key, 0)) > DRIFT_MAX]
    options = ("BYSCORE", "LIMIT", 0, MEMBERS_MAX, "WITHSCORES")
    answers = await wire.ask_all(
        [("ZRANGE", window + key, f"({since}", "+inf", *options) for key in odd[:SUSPECTS_MAX]]
    )
    members = {}
    for key, answer in zip(odd, answers, strict=False):
        scores = _flat_pairs(answer)
        members[key] = tuple((member, int(float(score))) for member, score in scores)
    return replace(report, members=members)


async def _sample_keys(wire: Wire, sample: Sample) -> list[str]:
    """Some of the existing windows, the keys of the nodes first; never all of a big store."""
    prefix = f"{sample.prefix}:window:"
    # The busiest keys are read by name; the scan finds keys that no client uses any more.
    keys = dict.fromkeys(list(sample.counted)[: SAMPLE_KEYS_MAX // 2])
    cursor = "0"
    for _ in range(SCAN_PAGES_MAX):
        pattern = "".join(f"\\{sign}" if sign in "\\*?[]^-" else sign for sign in prefix) + "*"
        page = await wire.ask("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_PAGE_KEYS)
        if not isinstance(page, list) or len(page) != 2 or not isinstance(page[1], list):
            break
        cursor = str(page[0])
        keys |= dict.fromkeys(str(name).removeprefix(prefix) for name in page[1])
        if cursor == "0" or len(keys) >= SAMPLE_KEYS_MAX:
            break
    return list(keys)[:SAMPLE_KEYS_MAX]


def _flat_pairs(flat: Reply) -> list[tuple[str, str]]:
    items = flat if isinstance(flat, list) else []
    return [(str(name), str(value)) for name, value in zip(items[::2], items[1::2], strict=False)]


def _pairs(flat: Reply) -> dict[str, str]:
    return dict(_flat_pairs(flat))


def _read_scan(page: Reply) -> dict[str, str]:
    """The pairs of an HSCAN."""
    return _pairs(page[1]) if isinstance(page, list) and len(page) == 2 else {}


def _number(texts: Mapping[str, str], name: str) -> int | None:
    text = texts.get(name, "")
    return int(text) if text.isdigit() else None


def store_readings(info: Reply, role: Reply, config: Reply) -> dict[str, Value]:
    """Flat readings of one store; what it did not say is left out."""
    lines = info.splitlines() if isinstance(info, str) else []
    pairs = (line.partition(":") for line in lines if not line.startswith("#"))
    fields = {name: value.strip() for name, colon, value in pairs if colon}
    settings = _pairs(config)
    if not fields:
        return {}
    used, most = _number(fields, "used_memory"), _number(fields, "maxmemory")
    readings: dict[str, Value] = {
        "role": ROLES.get(fields.get("role", ""), "unknown"),
        "connected_replicas": _number(fields, "connected_slaves"),
        "connected_clients": _number(fields, "connected_clients"),
        "blocked_clients": _number(fields, "blocked_clients"),
        "used_memory_bytes": used,
        "maxmemory_bytes": most,
        "memory_share": round(used / most, 3) if used is not None and most else 0.0,
        "uptime_s": _number(fields, "uptime_in_seconds"),
        "writes_paused": any(
            word in fields.get("paused_actions", "none") for word in ("write", "all")
        ),
        "disk_ok": fields.get("aof_last_write_status", "ok") == "ok",
    }
    if readings["role"] == "replica":
        readings["replica_link"] = fields.get("master_link_status", "unknown")
        readings["primary"] = f"{fields.get('master_host', '')}:{fields.get('master_port', '')}"
    if isinstance(role, list) and role and role[0] not in ("master", "slave"):
        readings["role"] = "unknown"
    for name, value in settings.items():
        readings[f"setting_{name.replace('-', '_')}"] = value[:TEXT_CHARS_MAX]
    kind, why = _explain_refusal(fields, settings, readings)
    readings |= {"refuses_writes": bool(kind), "refuses_kind": kind, "refuses_because": why}
    return {name: value for name, value in readings.items() if value is not None}


def _explain_refusal(
    info: Mapping[str, str], settings: Mapping[str, str], readings: Mapping[str, Value]
) -> tuple[str, str]:
    """Why it takes no writes, in a word and in a sentence; empty when it does.

    A replica never does, and is not asked to.
    """
    if readings["role"] != "primary":
        return "", ""
    used = (_number(info, "used_memory") or 0) - (_number(info, "mem_not_counted_for_evict") or 0)
    most = _number(info, "maxmemory") or 0
    policy = settings.get("maxmemory-policy", info.get("maxmemory_policy", ""))
    if most and used > most and policy == "noeviction":
        return "memory", f"out of memory: {format_bytes(used)} of {format_bytes(most)} used"
    if readings["writes_paused"]:
        return "paused", "writes are paused"
    wanted = _number(settings, "min-replicas-to-write") or 0
    good = _number(info, "min_slaves_good_slaves")
    if wanted and good is not None and good < wanted:
        return "replicas", f"needs {wanted} connected replicas to write and has {good}"
    if not readings["disk_ok"]:
        return "disk", "cannot write to its disk"
    stops = settings.get("stop-writes-on-bgsave-error", "no") == "yes"
    if stops and info.get("rdb_last_bgsave_status", "ok") != "ok":
        return "disk", "could not save its data"
    return "", ""


async def command(
    target: Target,
    commands: Sequence[Sequence[str | int]],
    *,
    secret: Secret,
    timeout_s: float = ANSWER_S_MAX,
) -> list[Reply]:
    """The answers of a store to some commands; TalkError when it refuses one of them."""
    try:
        password = password_of(target, secret)
        opening = open_wire(target, password=password, connect_s=timeout_s)
        async with asyncio.timeout(timeout_s), opening as (wire, _, _):
            answers = await wire.ask_all(commands)
    except TimeoutError as error:
        raise TalkError(f"{target.name} does not answer within {timeout_s:g} s.") from error
    except OSError as error:
        raise TalkError(f"{target.name} does not answer: {sentence_of(error)}.") from error
    except (asyncio.IncompleteReadError, ProtocolError, ValueError) as error:
        raise TalkError(f"{target.name} returned an invalid answer: {error}.") from error
    for request, answer in zip(commands, answers, strict=True):
        if isinstance(answer, ErrorReply):
            raise TalkError(f"{target.name} refused {request[0]}: {answer.text[:DETAIL_CHARS_MAX]}")
    return answers


async def role_of(target: Target, *, secret: Secret) -> str:
    """`primary`, `replica`, or "" when it does not say."""
    try:
        (reply,) = await command(target, [("ROLE",)], secret=secret)
    except TalkError:
        return ""
    word = reply[0] if isinstance(reply, list) and reply else ""
    return ROLES.get(str(word), "")
