"""What a stopped store would be after a start: its role, and whether a replica would lose data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.machine import data_dir_of
from operator_sre.subjects.ratelimiter.stores import StoreReport

__all__ = ["FAILOVER_S", "LOGS", "SNAPSHOTS", "has_data", "see_starts"]

# The sentinels have replaced a silent primary by then, or they do not.
FAILOVER_S = 20.0
FILES = ("appendonlydir/*", "*.aof", "*.rdb")
LOGS = ("appendonlydir/*.aof", "*.aof")
SNAPSHOTS = ("appendonlydir/*.rdb", "*.rdb")


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


def see_starts(
    down_s: Mapping[str, float],
    places: Sequence[Target],
    stores: Sequence[StoreReport],
    sentinels: Sequence[StoreReport],
    data: Mapping[str, bool | None],
) -> dict[str, dict[str, Value]]:
    """Readings of each store: what its start would do. `down_s` is how long it has been silent.

    `failover_due` is True while sentinels with quorum are about to replace it. `start_loses_data`
    is True when it would come back as the primary without its data, or with older data, so that its
    replicas drop theirs.
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
        found[store.name] = readings
    return found
