"""A system that a description describes, as a subject."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Trouble
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError, ObservationError
from operator_protocols.kit.client import CLIENT_VIEW
from operator_protocols.kit.knowledge import read_knowledge
from operator_protocols.ports import Invariant, SubjectSettings, Tool
from operator_sre.subjects.declarative.cause import causes_by
from operator_sre.subjects.declarative.data import guard_levers, see_data
from operator_sre.subjects.declarative.description import (
    DeclaredProbe,
    Description,
    read_description,
    speaks_of,
)
from operator_sre.subjects.declarative.document import nearest
from operator_sre.subjects.declarative.evidence import Evidence, LogEnds, clear_passed_on
from operator_sre.subjects.declarative.expression import compile_expression
from operator_sre.subjects.declarative.invariants import KIND, DeclaredInvariant
from operator_sre.subjects.declarative.lever_tool import LeverTool
from operator_sre.subjects.declarative.probes.http import HttpProbe
from operator_sre.subjects.declarative.probes.kinds import OF_STORES, judge_client_view
from operator_sre.subjects.declarative.probes.machine import process_in
from operator_sre.subjects.declarative.probes.place import Blind, Links, Place
from operator_sre.subjects.declarative.values import Readings

__all__ = [
    "KNOWLEDGE",
    "DeclarativeSubject",
    "causes_of",
    "description_of",
    "targets_of",
    "tools_of",
]

OPTIONS = ("file",)
KNOWLEDGE = read_knowledge(Path(__file__).parent)
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
        self._evidence = Evidence(
            self._description.causes,
            self._description.invariants,
            self._description.pid_files,
            LogEnds(),
        )
        self.name = settings.name
        self._check_words()
        self.invariants: Sequence[Invariant] = self._description.invariants
        self.notes = self._description.notes

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self._settings.targets()

    async def observe(self) -> Observation:
        """Check once. ObservationError when there is nothing to check."""
        targets = self.targets()
        if not targets:
            raise ObservationError(f"{self.name!r} has no targets.")
        pace = _Pace()
        seen = await asyncio.gather(*(self._observe_target(target, pace) for target in targets))
        seen = await asyncio.to_thread(lambda: list(map(see_data, targets, seen)))
        observation = Observation(self.name, self._settings.clock.now(), tuple(seen))
        places = [self._place(target) for target in targets]
        if self._is_healthy(observation):
            await asyncio.gather(*(self._evidence.note_health(place) for place in places))
            return observation
        found = await asyncio.gather(*(self._evidence.find(place, observation) for place in places))
        names = (target.name for target in targets)
        shown = clear_passed_on(dict(zip(names, found, strict=True)), targets)
        return replace(
            observation,
            seen=tuple(
                replace(each, readings={**each.readings, **shown[each.target]})
                for each in observation.seen
            ),
        )

    def _place(self, target: Target) -> Place:
        return Place(target, self._settings, self._settings.timeout_s)

    def _is_healthy(self, observation: Observation) -> bool:
        return all(
            finding.health is Health.HEALTHY
            for invariant in self.invariants
            for finding in invariant.check(observation)
        )

    def _check_words(self) -> None:
        """Refuse an `on` that means no target of operator.toml."""
        if self._description.targets or not (targets := self.targets()):
            return
        known = sorted({word for target in targets for word in (target.kind, target.name)})
        for noun, each in self._description.parts:
            for word in each.on:
                if word not in known:
                    raise ConfigError(
                        f"'on' of {noun} {each.name!r}: {word[:60]!r} is neither a kind nor a name"
                        f" of a target of {self.name!r}.",
                        next_step=nearest(word, known),
                    )

    async def _observe_target(self, target: Target, pace: _Pace) -> Seen:
        probes = [probe for probe in self._description.probes if speaks_of(probe.on, target)]
        if not probes:
            why = f"no probe covers its kind {target.kind!r}"
            return Seen(target.name, {KIND: target.kind}, why)
        results = await asyncio.gather(*(self._observe(probe, target, pace) for probe in probes))
        readings: Readings = {KIND: target.kind}
        problems: list[str] = []
        blamed = False
        for declared, (values, problem, ours) in zip(probes, results, strict=True):
            readings |= {f"{declared.name}.{field}": value for field, value in values.items()}
            if problem:
                problems.append(f"{declared.name}: {problem}")
                blamed = blamed or not ours
        answered = [
            declared.probe
            for declared, (values, _, _) in zip(probes, results, strict=True)
            if values.get("up") is True
        ]
        if view := judge_client_view(answered):
            readings[CLIENT_VIEW] = view
        trouble = Trouble.NOTHING if problems and not blamed else None
        why = "; ".join(problems)[:PROBLEM_CHARACTERS_MAX]
        return Seen(target.name, readings, why, trouble)

    async def _observe(
        self, declared: DeclaredProbe, target: Target, pace: _Pace
    ) -> tuple[Readings, str, bool]:
        """The values, why there are none, and whether the reason lies on this side."""
        limit_s = self._settings.timeout_s
        timeout_s = min(declared.timeout_s or limit_s, limit_s)
        place = Place(target, self._settings, timeout_s, self._links, declared.name)
        async with pace.turn():
            try:
                async with asyncio.timeout(timeout_s + ENDING_S):
                    return await declared.probe.observe(place), "", False
            except Blind as blind:
                return {}, str(blind), blind.ours
            except TimeoutError:
                return {}, "the observation took too long", True
            except Exception as error:  # noqa: BLE001  one target must not blind us for the others
                return {}, f"the observation failed: {type(error).__name__}", True


class _Pace:
    """Lets many checks be under way, and begins one after the other.

    If all began at once, each would be measured with the work that all others make for us.
    """

    def __init__(self) -> None:
        # As many as this process may have connections for, and half of those are not ours.
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = AT_ONCE_MAX if soft < 0 else max(16, min(AT_ONCE_MAX, soft // 2))
        self._under_way = asyncio.Semaphore(most)
        self._beginning = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a free slot; a probe that hangs delays no other."""
        async with self._under_way:
            async with self._beginning:
                await asyncio.sleep(0)  # what the others are waiting for comes first
            yield


def description_of(options: Mapping[str, Any]) -> Description:
    """The description of a subject, read again when its file has changed."""
    for key in options:
        if key not in OPTIONS:
            raise ConfigError(
                f"{key!r} is not an option of 'declarative'.", next_step=nearest(key, OPTIONS)
            )
    file = options.get("file")
    if file is None:
        return _describe_web()
    if not isinstance(file, str):
        raise ConfigError("The option 'file' of 'declarative' must be a path.")
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
        if target.name in description.pid_files and not target.runs_at
        else target
        for target in description.targets
    )


def causes_of(options: Mapping[str, Any]) -> Sequence[Cause]:
    """The causes of a file, and those of every description that it does not define itself."""
    description = description_of(options)
    own = causes_by(description.causes, description.invariants, description.targets)
    names = {cause.name for cause in own}
    return (*(cause for cause in KNOWLEDGE.causes if cause.name not in names), *own)


def tools_of(settings: SubjectSettings) -> Sequence[Tool]:
    """The levers of a file."""
    description, targets = description_of(settings.options), settings.targets()
    storing = {
        target.name
        for target in targets
        for probe in description.probes
        if isinstance(probe.probe, OF_STORES) and speaks_of(probe.on, target)
    }
    levers = guard_levers(description.levers, targets, storing)
    return tuple(LeverTool(lever, settings) for lever in levers)


@cache
def _describe_web() -> Description:
    """What holds without a file: every target answers GET / without an error of its own."""
    expression = compile_expression("page.up && page.status < 500", lambda reference: "")
    answers = DeclaredInvariant("answers", Severity.CRITICAL, 0.0, expression)
    page = DeclaredProbe("page", HttpProbe())
    return Description("web", probes=(page,), invariants=(answers,))
