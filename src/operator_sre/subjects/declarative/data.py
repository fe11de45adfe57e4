"""Targets that hold data: a lever that starts one runs by itself only when that harms no data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.precondition import Precondition
from operator_protocols.domain.target import Target
from operator_protocols.kit.datafiles import DataFiles
from operator_protocols.kit.machine import disk_room
from operator_sre.subjects.declarative.lever import Lever

__all__ = ["DATA_INTACT", "FREE_BYTES", "guard_levers", "see_data"]

DATA_INTACT = "data.intact"
FREE_BYTES = "data.free_bytes"
# A server that cannot write while it recovers stops half-way.
FREE_BYTES_MIN = 16 << 20
ROLE_KNOWN = "data.role_known"
# Three levels of a data directory tell whether most of it is still there.
FILES = DataFiles((), ("*", "*/*", "*/*/*"))
STARTS = frozenset({"not_started", "process_dead", "process_hung", "stopped_cleanly"})
START_WORDS = frozenset({"start", "restart", "reload-or-restart", "try-restart"})
_INTACT = Precondition(
    "data_intact",
    "Its data is what it left when it stopped",
    DATA_INTACT,
    equals=True,
    next_step="Check the data of {target} before you start it. Its `data_dir` in the description"
    " lets Operator check that it is complete.",
)
_ROOM = Precondition(
    "room_on_disk",
    "Its disk has room for a start",
    FREE_BYTES,
    at_least=FREE_BYTES_MIN,
    on_this_machine=True,
    next_step="A server that cannot write while it recovers may damage its data. Free space on the"
    " disk of {target} first.",
)
_ROLE = Precondition(
    "role_known",
    "It does not come up in a role that another one has",
    ROLE_KNOWN,
    equals=True,
    next_step="Check which one is the primary before you start {target}. `requires` of the lever"
    " tells Operator what has to be so.",
)


def guard_levers(
    levers: Sequence[Lever], targets: Sequence[Target], storing: Collection[str]
) -> tuple[Lever, ...]:
    """The levers; a lever that starts what holds data, and requires nothing, gets preconditions.

    `storing` are the names of targets that are asked like a database.
    """
    holds = [target for target in targets if target.data_dir or target.name in storing]
    counts = Counter(target.kind for target in holds)
    guarded = []
    for lever in levers:
        words = {lever.name, lever.tool, *lever.command.argv[:3]}
        starts = not STARTS.isdisjoint(lever.ends) or not START_WORDS.isdisjoint(words)
        kinds = {each.kind for each in holds if not lever.on or {each.kind, each.name} & lever.on}
        if starts and kinds and not lever.requires:
            several = tuple(sorted(kind for kind in kinds if counts[kind] > 1))
            requires = [replace(each, kinds=tuple(sorted(kinds))) for each in (_INTACT, _ROOM)]
            requires += [replace(_ROLE, kinds=several)] if several else []
            lever = replace(lever, requires=tuple(requires))
        guarded.append(lever)
    return tuple(guarded)


def see_data(target: Target, seen: Seen) -> Seen:
    """The same, with what a start would find, where its data directory is on this machine."""
    if not target.data_dir or target.runs_at:
        return seen
    ups = [value for name, value in seen.readings.items() if name.endswith(".up")]
    works = bool(ups) and all(value is True for value in ups)
    place = Path(target.data_dir)
    intact = FILES.compare(target.data_dir, place, works=works)
    intact = FILES.are_present(place) if intact is None else intact
    room = disk_room(place)
    free: dict[str, Value] = {FREE_BYTES: room[0]} if room is not None else {}
    return replace(seen, readings={**seen.readings, DATA_INTACT: intact, **free})
