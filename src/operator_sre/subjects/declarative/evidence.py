"""Evidence for causes at a target where something is broken: its process, its log, its symptoms."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.subjects.declarative.cause import (
    DeclaredCause,
    is_cause,
    reading_of,
    see_causes,
)
from operator_sre.subjects.declarative.invariants import DeclaredInvariant
from operator_sre.subjects.declarative.probes.machine import is_alive, process_there
from operator_sre.subjects.declarative.probes.place import Blind, Place
from operator_sre.subjects.declarative.probes.there import (
    END_BYTES_MAX,
    read_end,
    run_there,
    see_file,
)
from operator_sre.subjects.declarative.symptom import (
    REASONS,
    find_symptoms,
    is_answering,
    is_connected,
    is_failing,
)

__all__ = ["Evidence", "LogEnds", "clear_passed_on"]

# A pid file that is missing this soon after a boot was never written.
BOOT_S = 900.0
# What a target passes on from the one behind it: slowness, and the error pages of others.
_PASSED_ON = ("server_errors", "slow_answers", "content_differs", *REASONS)
# The reading of a target whose trouble does not follow from its dependencies.
FAILS_ALONE = "fails_alone"
# What may follow from a dependency that fails.
_FOLLOWING = (*_PASSED_ON, "upstream_fails", "connections_used_up", "queue_full")
_OF_A_PROCESS = ("process_dead", "process_hung", "process_paused")


class LogEnds:
    """How long the log of each target was when all was well: what is older explains nothing."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    async def note(self, place: Place) -> None:
        """Remember where the log ends now."""
        try:
            self._sizes[place.target.name] = await _size_of(place)
        except Blind:
            self._sizes.pop(place.target.name, None)

    async def read(self, place: Place) -> str | None:
        """What was written since then; None where that cannot be known."""
        start = self._sizes.get(place.target.name)
        if start is None:
            return None
        try:
            size = await _size_of(place)
            # A shorter log is a new one.
            new = min(size - start if size >= start else size, END_BYTES_MAX)
            if not new:
                return ""
            if place.target.runs_at:
                return (await read_end(place, place.target.log, new)).decode("utf-8", "replace")
            return await asyncio.to_thread(_read_end, place.target.log, new)
        except (Blind, OSError):
            return None


async def _size_of(place: Place) -> int:
    if place.target.runs_at:
        found = await see_file(place, place.target.log)
        return found.size_bytes if found is not None else 0
    try:
        state = await asyncio.to_thread(os.stat, place.target.log)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise Blind(f"the log cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(state.st_mode):
        raise Blind("the log is not a regular file")
    return state.st_size


def _read_end(path: str, size_bytes: int) -> str:
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        file.seek(max(0, os.fstat(number).st_size - size_bytes))
        return file.read(size_bytes).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is looked for at the targets of one description."""

    causes: Sequence[DeclaredCause]
    invariants: Sequence[DeclaredInvariant]
    pid_files: Mapping[str, str]
    logs: LogEnds

    async def note_health(self, place: Place) -> None:
        """Remember what has to be known of a healthy target later."""
        if self._reads_log_of(place.target):
            await self.logs.note(place)

    def _reads_log_of(self, target: Target) -> bool:
        """Whether its log is read when it fails; over a network only where a cause asks for it."""
        is_near = not target.runs_at
        return bool(target.log) and (is_near or any(cause.log for cause in self.causes))

    async def find(self, place: Place, observation: Observation) -> Mapping[str, bool]:
        """Which causes are shown at a target, by the readings that say so."""
        target = place.target
        seen = observation.of(target.name)
        broken: set[str] = set()
        named: set[str] = set()
        for invariant in self.invariants:
            for finding in invariant.check(observation):
                # What could not be checked shows nothing.
                if finding.target == target.name and finding.health is Health.BROKEN:
                    broken |= {reference.reading for reference in invariant.expression.references}
                    # An invariant that only one cause breaks is its symptom.
                    named |= set(invariant.causes) if len(invariant.causes) == 1 else set()
        needs_log = is_failing(seen.readings) or any(cause.log for cause in self.causes)
        log = await self.logs.read(place) if needs_log and self._reads_log_of(target) else None
        symptoms = find_symptoms(seen.readings, seen.problem, broken, named, log or "")
        found = {reading_of(cause): shown for cause, shown in symptoms.items()}
        by_pid_file = ("stopped_cleanly", "not_started", "port_occupied")
        found |= {reading_of(cause): False for cause in by_pid_file}
        if is_connected(seen.readings):
            found[reading_of("cut_off")] = False
        if is_answering(seen.readings):
            found["reachable"] = True
        process = await self._see_process(place) if broken else {}
        if process and is_connected(seen.readings):
            # Something accepts connections there: the process of its pid file, or a stranger.
            found[reading_of("port_occupied")] = not process["pid_file.alive"]
            process = {name: process[name] for name in ("pid_file.exists", "pid_file.alive")}
        found |= process
        shown = see_causes(self.causes, target, observation, log)
        if True in shown.values() and not (target.port or target.endpoints or process):
            # Nothing of it is known that has a process, and something else explains it.
            found = {reading_of(cause): False for cause in _OF_A_PROCESS} | found
        return {**found, **shown}

    async def _see_process(self, place: Place) -> Mapping[str, bool]:
        """What the pid file of a target that does not answer says."""
        pid_file = self.pid_files.get(place.target.name)
        if pid_file is None:
            return {}
        is_booting = False
        try:
            if place.target.runs_at:
                process = await process_there(place, pid_file)
                is_there = process is not None or await see_file(place, pid_file) is not None
                is_running = process is not None
                is_paused = process is not None and process.state in "Tt"
                if not is_there:
                    text = (await run_there(place, "cat", "/proc/uptime")).stdout
                    is_booting = float(text.split()[0]) < BOOT_S
            else:
                is_there = await asyncio.to_thread(os.path.exists, pid_file)
                is_running, is_paused = await asyncio.to_thread(is_alive, pid_file), False
                is_booting = not is_there and time.clock_gettime(time.CLOCK_BOOTTIME) < BOOT_S
        except (Blind, OSError, ValueError):
            return {}
        shown = {
            "process_dead": is_there and not is_running,
            "stopped_cleanly": not is_there and not is_booting,
            "not_started": not is_there and is_booting,
        }
        if place.target.runs_at:
            shown["process_paused"] = is_paused
        found = {reading_of(cause): value for cause, value in shown.items()}
        return {**found, "pid_file.exists": is_there, "pid_file.alive": is_running}


def clear_passed_on(
    found: Mapping[str, Mapping[str, bool]], targets: Sequence[Target]
) -> Mapping[str, Mapping[str, bool]]:
    """The evidence by target, without what another target along its dependencies shows better.

    A proxy answers with the error page of the application behind it: the reason is there. And a
    target that answers slowly, as everything does on a busy machine, does not explain that what
    depends on it has an expired certificate or a wrong address: that one fails alone.
    """
    ports = {target.name for target in targets if target.port or target.endpoints}
    needs = {name: dependencies_of(name, targets) for name in found}
    slow = reading_of("slow_answers")
    following = {*map(reading_of, _FOLLOWING)}
    explained = {
        name
        for name, shown in found.items()
        if any(value and is_cause(each) and each not in following for each, value in shown.items())
    }
    alone = {
        name
        for name in explained
        if explained.isdisjoint(needs[name])
        and all(found.get(each, {}).get("reachable") for each in needs[name] & ports)
    }
    cleared: dict[str, Mapping[str, bool]] = {}
    for name, shown in found.items():
        behind = [each for each in needs[name] if name not in needs.get(each, ())]
        dropped = {
            reading
            for reading in map(reading_of, _PASSED_ON)
            if shown.get(reading) and any(found.get(each, {}).get(reading) for each in behind)
        }
        if shown.get(slow) and any(name in needs[each] for each in alone):
            dropped.add(slow)
        own = {FAILS_ALONE: True} if name in alone else {}
        cleared[name] = {**shown, **dict.fromkeys(dropped, False), **own}
    return cleared
