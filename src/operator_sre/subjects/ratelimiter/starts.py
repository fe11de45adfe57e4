"""What a stopped store would be after a start: its role, and whether a replica would lose data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.machine import data_dir_of
from operator_sre.subjects.ratelimiter.stores import StoreReport

__all__ = [
    "FAILOVER_S",
    "LOGS",
    "SNAPSHOTS",
    "config_file",
    "elect_primary",
    "has_data",
    "see_starts",
    "starts_as",
    "with_primary",
]

# The sentinels have replaced a silent primary by then, or they do not.
FAILOVER_S = 20.0
FILES = ("appendonlydir/*", "*.aof", "*.rdb")
LOGS = ("appendonlydir/*.aof", "*.aof")
SNAPSHOTS = ("appendonlydir/*.rdb", "*.rdb")
CONFIG_FILES = ("store.conf", "valkey.conf", "redis.conf")
CONFIG_BYTES_MAX = 1 << 20
_FOLLOWS = re.compile(r"^[ \t]*(?:replicaof|slaveof)[ \t]+(.*?)[ \t\r]*$", re.I | re.M)
_INCLUDES = re.compile(r"^[ \t]*include[ \t]", re.I | re.M)
_PORTS = re.compile(r"^[ \t]*(?:port|replica-announce-port)[ \t]+\"?(\d+)", re.I | re.M)


def has_data(target: Target) -> bool | None:
    """Whether its directory holds a file with its data; None where that is unknown."""
    if not target.data_dir or target.runs_at:
        return None
    place = data_dir_of(target)
    try:
        if not place.is_dir():
            return False
        files = (file for pattern in FILES for file in place.glob(pattern))
        return any(file.stat().st_size for file in files if file.suffix != ".manifest")
    except OSError:
        return None


def config_file(target: Target) -> Path | None:
    """Its configuration file, in or beside its data on this machine; None where that is unknown.

    A file that names another port belongs to another store, and a file that includes others does
    not tell all.
    """
    if not target.data_dir or target.runs_at:
        return None
    place = Path(target.data_dir)
    found = []
    try:
        for file in (folder / name for folder in (place, place.parent) for name in CONFIG_FILES):
            if file.is_file() and file.stat().st_size <= CONFIG_BYTES_MAX:
                text = file.read_text(encoding="utf-8")
                own = str(target.port) in _PORTS.findall(text) and not _INCLUDES.search(text)
                found += [file] if own else []
    except (OSError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


def starts_as(target: Target) -> str:
    """The role in which its configuration file starts it; "" where that is unknown.

    Sentinels write the file whenever they give a store another role.
    """
    file = config_file(target)
    try:
        followed = _FOLLOWS.findall(file.read_text(encoding="utf-8")) if file is not None else None
    except (OSError, ValueError):
        followed = None
    if followed is None:
        return ""
    return "replica" if followed and followed[-1].lower() != "no one" else "primary"


def with_primary(text: str, host: str, port: int) -> str:
    """A configuration that starts a store as the replica of this primary."""
    rest = _FOLLOWS.sub("", text).rstrip("\n")
    return f"{rest}\nreplicaof {host} {port}\n"


def elect_primary(sentinels: Sequence[StoreReport]) -> str:
    """The address of the primary by the word of most sentinels; "" where they do not agree."""
    votes = Counter(str(place) for each in sentinels if (place := each.reading("primary")))
    address, count = votes.most_common(1)[0] if votes else ("", 0)
    return address if count > len(sentinels) // 2 else ""


def see_starts(
    down_s: Mapping[str, float],
    places: Sequence[Target],
    stores: Sequence[StoreReport],
    sentinels: Sequence[StoreReport],
    data: Mapping[str, bool | None],
    roles: Mapping[str, str],
) -> dict[str, dict[str, Value]]:
    """Readings of each store: what its start would do. `down_s` is how long it has been silent.

    `failover_due` is True while sentinels with quorum are about to replace it. `start_loses_data`
    is True when it would come back as the primary without its data, or with older data, so that its
    replicas drop theirs. `start_second_writer` is True when it would take writes beside another
    primary until the sentinels demote it, by `roles`, in which the stores start. A paused store has
    that role too.
    """
    votes = Counter(str(place) for each in sentinels if (place := each.reading("primary")))
    named = votes.most_common(1)[0][0] if votes else ""
    has_quorum = any(each.reading("quorum_error") == "" for each in sentinels)
    found: dict[str, dict[str, Value]] = {}
    for store in places:
        address = f"{store.host}:{store.port}"
        others = [each for each in stores if each.seen.target != store.name]
        role = next((each.reading("role") for each in stores if each.seen.target == store.name), "")
        followed = any(each.reading("primary") == address for each in others)
        if role in ("primary", "replica"):
            is_primary: bool | None = role == "primary"
        else:
            is_primary = named == address if named else followed or None
        heirs = any(each.reading("role") == "replica" for each in others)
        silent_s = down_s.get(store.name)
        due = silent_s is not None and silent_s < FAILOVER_S and has_quorum and heirs
        due = due and is_primary is True
        readings: dict[str, Value] = {"failover_due": due}
        present = data.get(store.name)
        if present is not None:
            readings["data_present"] = present
        if is_primary is False or present or not others:
            readings["start_loses_data"] = False
        elif is_primary and present is False:
            readings["start_loses_data"] = True
        writer = _is_second_writer(store, places, stores, elect_primary(sentinels), roles)
        if writer is not None:
            readings["start_second_writer"] = writer
        found[store.name] = readings
    return found


def _is_second_writer(
    store: Target,
    places: Sequence[Target],
    stores: Sequence[StoreReport],
    elected: str,
    roles: Mapping[str, str],
) -> bool | None:
    """Whether its start makes a second primary; None where that is unknown."""
    others = [place.name for place in places if place is not store]
    if roles.get(store.name) == "replica" or not others:
        return False
    answers = {each.seen.target: each.reading("role") for each in stores}
    is_elected = elected == f"{store.host}:{store.port}"
    if any(answers.get(name) == "primary" for name in others) or (elected and not is_elected):
        return True if roles.get(store.name) else None
    # Another silent store may be the primary, unless it is known to be none.
    known = [answers.get(name) or roles.get(name) for name in others]
    return False if is_elected or all(role == "replica" for role in known) else None
