"""Looking at a system that a description describes."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError, ObservationError
from operator_protocols.ports import Invariant, SubjectSettings, Tool
from operator_sre.subjects.declarative.description import DeclaredProbe, Description, speaks_of
from operator_sre.subjects.declarative.expression import compiled
from operator_sre.subjects.declarative.invariants import KIND, DeclaredInvariant
from operator_sre.subjects.declarative.levers import LeverTool
from operator_sre.subjects.declarative.probes.http import HttpProbe
from operator_sre.subjects.declarative.probes.place import Blind, Links, Place, Readings
from operator_sre.subjects.declarative.probes.process import process_in
from operator_sre.subjects.declarative.reading import read_description
from operator_sre.subjects.declarative.table import nearest

__all__ = ["DeclarativeSubject", "description_of", "targets_of", "tools_of"]

OPTIONS = ("file",)
AT_ONCE_MAX = 1000
# What a probe may take beyond its own time-out, to end what it began.
ENDING_S = 3.0
PROBLEM_CHARACTERS_MAX = 500
_READ: dict[str, tuple[tuple[int, int, int], Description]] = {}


class DeclarativeSubject:
    """Targets, probes and invariants as a file has them; without a file, web servers."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._description = description_of(settings.options)
        self._links = Links()
        self.name = settings.name
        self.invariants: Sequence[Invariant] = self._description.invariants
        self.notes = self._description.notes

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self._settings.targets()

    async def observe(self) -> Observation:
        """Look once. ObservationError when there is nothing to look at."""
        targets = self.targets()
        if not targets:
            raise ObservationError(f"{self.name!r} has no targets to look at.")
        pace = _Pace()
        seen = await asyncio.gather(*(self._seen(one, pace) for one in targets))
        return Observation(self.name, self._settings.clock.now(), tuple(seen))

    async def _seen(self, target: Target, pace: _Pace) -> Seen:
        probes = [one for one in self._description.probes if speaks_of(one.on, target)]
        if not probes:
            why = f"no probe looks at its kind {target.kind!r}"
            return Seen(target.name, {KIND: target.kind}, why)
        places = [self._place(one, target) for one in probes]
        looks = (self._look(*both, pace) for both in zip(probes, places, strict=True))
        found = await asyncio.gather(*looks)
        readings: Readings = {KIND: target.kind}
        problems: list[str] = []
        for declared, (values, problem) in zip(probes, found, strict=True):
            readings |= {f"{declared.name}.{field}": value for field, value in values.items()}
            if problem:
                problems.append(f"{declared.name}: {problem}")
        return Seen(target.name, readings, "; ".join(problems)[:PROBLEM_CHARACTERS_MAX])

    def _place(self, declared: DeclaredProbe, target: Target) -> Place:
        timeout_s = min(declared.timeout_s or self._settings.timeout_s, self._settings.timeout_s)
        return Place(target, self._settings, timeout_s, self._links, declared.name)

    async def _look(
        self, declared: DeclaredProbe, place: Place, pace: _Pace
    ) -> tuple[Readings, str]:
        async with pace.turn():
            try:
                async with asyncio.timeout(place.timeout_s + ENDING_S):
                    return await declared.probe.look(place), ""
            except Blind as blind:
                return {}, str(blind)
            except TimeoutError:
                return {}, "looking at it took too long"
            except Exception as error:  # noqa: BLE001  one target must not blind us for the others
                return {}, f"looking at it broke: {type(error).__name__}"


class _Pace:
    """Lets many looks be under way, and begins one after the other.

    If all began at once, each would be measured with the work that all others make for us.
    """

    def __init__(self) -> None:
        self._under_way = asyncio.Semaphore(_at_once())
        self._beginning = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until it may begin; whoever hangs delays nobody."""
        async with self._under_way:
            async with self._beginning:
                await asyncio.sleep(0)  # what the others are waiting for comes first
            yield


def description_of(options: Mapping[str, Any]) -> Description:
    """What the file of a subject says, read anew when it has changed."""
    for key in options:
        if key not in OPTIONS:
            raise ConfigError(
                f"{key!r} is no option of 'declarative'.", next_step=nearest(key, OPTIONS)
            )
    file = options.get("file")
    if file is None:
        return _web()
    if not isinstance(file, str):
        raise ConfigError("The option 'file' of 'declarative' has to be a path.")
    path = Path(file).expanduser()
    try:
        stat = path.stat()
    except OSError:
        return read_description(path)  # which says what is wrong with it
    stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    known = _READ.get(file)
    if known is None or known[0] != stamp:
        _READ[file] = (stamp, read_description(path))
    return _READ[file][1]


def targets_of(options: Mapping[str, Any]) -> Sequence[Target]:
    """The parts that a file lists, each with the process that its pid file names."""
    description = description_of(options)
    return tuple(
        replace(target, process=process_in(description.pid_files[target.name]))
        if target.name in description.pid_files
        else target
        for target in description.targets
    )


def tools_of(settings: SubjectSettings) -> Sequence[Tool]:
    """The levers of a file."""
    return tuple(LeverTool(one, settings) for one in description_of(settings.options).levers)


@cache
def _web() -> Description:
    """What holds without a file: every target answers GET / without an error of its own."""
    expression = compiled("page.up && page.status < 500", lambda reference: "")
    answers = DeclaredInvariant("answers", Severity.CRITICAL, 0.0, expression)
    page = DeclaredProbe("page", HttpProbe())
    return Description("web", probes=(page,), invariants=(answers,))


@cache
def _at_once() -> int:
    """As many looks as this process may have connections for, and half of those are not ours."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return AT_ONCE_MAX if soft < 0 else max(16, min(AT_ONCE_MAX, soft // 2))
