"""What every plug-in promises: `assert await broken_promises(plugin) == []` in its own tests.

It needs no server and no network beyond the loopback: everything a target can do wrong is played by
small sockets of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from operator_protocols.domain.action import Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.errors import MissingProgramError, ObservationError
from operator_protocols.ports import Depot, Invariant, Job, Plugin, Subject, SubjectSettings, Tool

__all__ = ["broken_promises"]

TIMEOUT_S = 0.5
SLACK_S = 5.0
GRACE_S_MAX = 3600.0
# The monitor says by this name that it could not see.
OBSERVABLE = "observable"
# Provided by the program that runs a subject.
GIVEN_TOOLS = frozenset(
    {"restart_node", "resume_node", "restart_service", "kill_process", "execute_script"}
)


@dataclass(frozen=True, slots=True)
class _Clock:
    """The real time, except that it never goes on."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, TIMEOUT_S))


@dataclass(frozen=True, slots=True)
class _Trial:
    """One plug-in under test."""

    plugin: Plugin
    options: Mapping[str, Any]
    slack_s: float

    def settings(self, *targets: Target) -> SubjectSettings:
        clock = _Clock(datetime.now(UTC))
        return SubjectSettings("mine", lambda: targets, clock, TIMEOUT_S, self.options)

    def subject(self, *targets: Target) -> Subject:
        return self.plugin.subject(self.settings(*targets))

    @property
    def kinds(self) -> list[str]:
        """The kinds of targets that it knows by its rig, and an unknown one.

        Where the programs of its rig are missing, those of its faults are all that can be known.
        """
        rig = self.plugin.rig
        try:
            known = {process.kind for process in rig().processes} if rig else set()
        except MissingProgramError:
            known = {fault.kind for fault in self.plugin.faults}
        return [*sorted(known), "odd"]


async def broken_promises(
    plugin: Plugin, *, options: Mapping[str, Any] | None = None, slack_s: float = SLACK_S
) -> list[str]:
    """Every promise that this plug-in breaks, as a sentence; none when it keeps them all.

    `slack_s` is what a loaded machine may add to an observation that ends in time.
    """
    trial = _Trial(plugin, options or {}, slack_s)
    return [
        *_identity(trial),
        *_invariants(trial),
        *await _looks(trial),
        *_checks(trial),
        *await _tools(trial),
        *await _depot(trial),
        *_library(trial),
        *_rig(trial),
    ]


def _identity(trial: _Trial) -> Iterator[str]:
    target = Target("a", "odd", port=1)
    subject = trial.subject(target)
    if not _has_verbs(subject, Subject):
        yield "`subject` does not return a Subject."
    if subject.name != "mine":
        yield f"The subject is named {subject.name!r} instead of its configured name."
    if list(subject.targets()) != [target]:
        yield "The subject does not have the targets that it was given."
    if not trial.plugin.sentence.endswith("."):
        yield "The plug-in has no `sentence` that describes it."


def _invariants(trial: _Trial) -> Iterator[str]:
    invariants = trial.subject().invariants
    names = [invariant.name for invariant in invariants]
    if not names:
        yield "There is no invariant, so nothing can be violated."
    if len(set(names)) < len(names):
        yield "Two invariants have the same name."
    for invariant in invariants:
        if not _has_verbs(invariant, Invariant):
            yield f"{invariant.name!r} is not an Invariant."
        if invariant.name == OBSERVABLE:
            yield f"{OBSERVABLE!r} is the monitor's own invariant."
        if not 0.0 <= invariant.grace_s < GRACE_S_MAX:
            yield f"The grace of {invariant.name!r} is not between 0 and {GRACE_S_MAX:g} s."


async def _looks(trial: _Trial) -> list[str]:
    broken = []
    try:
        await trial.subject().observe()
        broken.append("Observing without targets does not raise ObservationError.")
    except ObservationError:
        pass
    async with _silent() as silent:
        with _dead() as dead:
            targets = [
                Target(f"{kind}-{how}", kind, port=port)
                for kind in trial.kinds
                for how, port in (("silent", silent), ("dead", dead), ("portless", None))
            ]
            started_s = time.monotonic()
            subject = trial.subject(*targets)
            observation = await subject.observe()
            took_s = time.monotonic() - started_s
    if took_s > 2 * TIMEOUT_S + trial.slack_s:
        broken.append(f"An observation with a timeout of {TIMEOUT_S:g} s took {took_s:.1f} s.")
    if observation.subject != "mine":
        broken.append("An observation does not have the configured name of its subject.")
    missing = {target.name for target in targets} - {seen.target for seen in observation.seen}
    if missing:
        broken.append(f"Targets are missing from the observation: {', '.join(sorted(missing))}.")
    for invariant in subject.invariants:
        for finding in invariant.check(observation):
            if finding.health is Health.HEALTHY:
                broken.append(
                    f"{invariant.name!r} reports {finding.target!r} as healthy, which is wrong."
                )
    return broken


def _checks(trial: _Trial) -> Iterator[str]:
    now = datetime.now(UTC)
    blind = Observation("mine", now, (Seen("a", problem="it answered 500"), Seen("b")))
    for invariant in trial.subject().invariants:
        first, again = list(invariant.check(blind)), list(invariant.check(blind))
        if first != again:
            yield f"{invariant.name!r} gives different results for the same observation."
        if any(finding.health is not Health.UNKNOWN for finding in first):
            yield f"{invariant.name!r} reports the health of a target that was not observed."
        if list(invariant.check(Observation("mine", now))):
            yield f"{invariant.name!r} reports targets although none was observed."


async def _tools(trial: _Trial) -> list[str]:
    if trial.plugin.tools is None:
        return []
    with _dead() as dead:
        targets = [Target(kind, kind, port=dead) for kind in trial.kinds]
        tools = trial.plugin.tools(trial.settings(*targets))
        names = [tool.spec.name for tool in tools]
        broken = ["Two tools have the same name."] if len(set(names)) < len(names) else []
        for tool in tools:
            broken += await _tool(tool)
    return broken


async def _tool(tool: Tool) -> list[str]:
    """Nonsense and a dead target are Results, never exceptions."""
    if not tool.spec.sentence.endswith("."):
        return [f"The tool {tool.spec.name!r} has no `sentence` that describes it."]
    try:
        async with asyncio.timeout(SLACK_S):
            result = await tool.call({"no such argument": 1}, Job("promise", timeout_s=TIMEOUT_S))
    except Exception as error:  # noqa: BLE001  whatever it raises, that is the broken promise
        return [f"The tool {tool.spec.name!r} raises {type(error).__name__}: {error}."]
    if not _has_verbs(result, Result) or result.ok:
        return [f"The tool {tool.spec.name!r} accepts arguments that it does not declare."]
    return []


async def _depot(trial: _Trial) -> list[str]:
    """An invariant without a finding is neither kept nor broken."""
    if trial.plugin.depot is None:
        return []
    async with _silent() as silent:
        with _dead() as dead:
            places = [("silent", silent), ("dead", dead), ("portless", None)]
            targets = [
                Target(f"{kind}-{how}", kind, port=port)
                for kind in trial.kinds
                for how, port in places
            ]
            depot = trial.plugin.depot(trial.settings(*targets))
            if not _has_verbs(depot, Depot):
                return ["`depot` does not return a Depot."]
            started_s = time.monotonic()
            try:
                kept, gone = await depot.put("mark"), await depot.find_lost(("mark",))
            except Exception as error:  # noqa: BLE001  that it raises is the broken promise
                return [f"The depot raises {type(error).__name__}: {error}."]
            took_s = time.monotonic() - started_s
    broken = []
    if kept:
        broken.append("The depot reports a mark as kept that was never acknowledged.")
    if gone is not None:
        broken.append("The depot reports lost marks although no target answers.")
    if took_s > 2 * TIMEOUT_S * len(targets) + trial.slack_s:
        broken.append(f"The depot took {took_s:.1f} s with a timeout of {TIMEOUT_S:g} s.")
    return broken


def _library(trial: _Trial) -> Iterator[str]:
    tools = trial.plugin.tools(trial.settings()) if trial.plugin.tools else ()
    known = GIVEN_TOOLS | {tool.spec.name for tool in tools}
    invariants = {invariant.name for invariant in trial.subject().invariants}
    for cause in trial.plugin.causes:
        if not 0.0 < cause.prior < 1.0:
            yield f"The prior of the cause {cause.name!r} is not between 0 and 1."
        for name in set(cause.breaks) - invariants:
            yield f"The cause {cause.name!r} breaks {name!r}, which is not an invariant."
        for remedy in cause.remedies:
            if remedy.tool not in known:
                yield f"The cause {cause.name!r} is ended by {remedy.tool!r}, which is not a tool."


def _rig(trial: _Trial) -> Iterator[str]:
    plugin = trial.plugin
    invariants = {invariant.name for invariant in trial.subject().invariants}
    names = [fault.name for fault in plugin.faults]
    if len(set(names)) < len(names):
        yield "Two faults have the same name."
    if names and plugin.rig is None:
        yield "There are faults but no rig."
    for fault in plugin.faults:
        if fault.kind not in trial.kinds:
            yield f"The fault {fault.name!r} needs {fault.kind!r}, which the rig does not have."
        if not fault.breaks or set(fault.breaks) - invariants - {OBSERVABLE}:
            yield f"The fault {fault.name!r} does not name the invariant that it breaks."


def _has_verbs(thing: object, kind: type) -> bool:
    """The type of this value is not checked yet."""
    return isinstance(thing, kind)


@contextlib.asynccontextmanager
async def _silent() -> AsyncIterator[int]:
    """A port that accepts and never answers."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


@contextlib.contextmanager
def _dead() -> Iterator[int]:
    """A port that is bound, and that accepts no connection."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
