"""Operator as a subject of its own: its home, store, clock, monitors, agents, models, messages.

What it observes comes from the store and from this machine. When the store cannot be written, no
ticket can be opened: then people are notified without it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Trouble
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import OperatorError
from operator_protocols.kit.units import format_bytes, format_duration
from operator_protocols.ports import Plugin
from operator_sre.app.doctor import DISK_FAILED_BYTES, DISK_WARNING_BYTES
from operator_sre.app.notices import configured_channels, notify_status
from operator_sre.app.redaction import open_redactor
from operator_sre.app.wiring import OWN
from operator_sre.drawing import plural
from operator_sre.notify.notice import Message

if TYPE_CHECKING:
    from operator_protocols.ports import SubjectSettings
    from operator_sre.app.wiring import App
    from operator_sre.notify.channel import Channel

__all__ = ["OwnSubject", "StoreAlarm", "own_plugin", "own_targets", "watch_own"]

KINDS = ("home", "store", "clock", "monitors", "agents", "models", "messages")
WINDOW_S = 600.0
WRITE_S_MAX = 1.0
CLOCK_JUMP_S = 2.0
MISSED_MAX = 3
STUCK_S = 900.0
FALLBACKS_MAX = 3
ENTRIES_READ_MAX, PAGE_ENTRIES = 2000, 500
LEASE_S = 30.0
# People are notified again every hour while the store cannot be written.
ALARM_EVERY_S = 3600.0
FAILURES_BEFORE_ALARM = 2
NOTES = (
    "This is Operator itself. An agent must change nothing about it: report the findings, and"
    " escalate. docs/service.md says what each finding means."
)
log = logging.getLogger(__name__)


def own_targets() -> tuple[Target, ...]:
    """The parts of Operator that it observes."""
    return tuple(Target(kind, kind) for kind in KINDS)


def own_plugin(app: App) -> Plugin:
    """The plug-in that watches this home; it has no tools."""

    def subject(settings: SubjectSettings) -> OwnSubject:
        return OwnSubject(app)

    return Plugin(
        name=OWN,
        sentence="Operator itself: space, store, clock, missed checks, stuck runs, notifications",
        subject=subject,
        notes=NOTES,
    )


@dataclass(frozen=True, slots=True)
class OwnInvariant:
    """What must hold for one part: `judge` says what is wrong with its readings, or ""."""

    name: str
    target: str
    severity: Severity
    judge: Callable[[Mapping[str, object]], str]
    grace_s: float = 0.0
    trouble: Trouble | None = None

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding, about the one target."""
        seen = observation.of(self.target)
        if seen.problem:
            yield Finding(self.name, self.target, Health.UNKNOWN, seen.problem)
            return
        problem = self.judge(seen.readings)
        health = Health.BROKEN if problem else Health.HEALTHY
        yield Finding(self.name, self.target, health, problem, trouble=self.trouble)


def _number(readings: Mapping[str, object], name: str) -> float:
    value = readings.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _judge_space(readings: Mapping[str, object], least: int) -> str:
    free = _number(readings, "free_bytes")
    if free >= least:
        return ""
    return f"{format_bytes(free)} free for the home, {format_bytes(least)} needed"


def _judge_store(readings: Mapping[str, object]) -> str:
    if why := str(readings.get("write_problem", "")):
        return f"the store cannot be written: {why}"
    took_s = _number(readings, "write_s")
    return f"a write takes {format_duration(took_s)}" if took_s > WRITE_S_MAX else ""


def _judge_clock(readings: Mapping[str, object]) -> str:
    jump_s = _number(readings, "jump_s")
    if abs(jump_s) <= CLOCK_JUMP_S:
        return ""
    return f"the clock jumped by {jump_s:+.1f} s, or this machine was suspended"


def _judge_checks(readings: Mapping[str, object]) -> str:
    missed, failed = int(_number(readings, "missed")), int(_number(readings, "failed"))
    if missed + failed < MISSED_MAX:
        return ""
    within = f"within {WINDOW_S / 60:g} minutes"
    return f"{plural(missed, 'check')} skipped and {failed} failed {within}"


INVARIANTS: tuple[OwnInvariant, ...] = (
    OwnInvariant(
        "space",
        "home",
        Severity.WARNING,
        lambda readings: _judge_space(readings, DISK_WARNING_BYTES),
        trouble=Trouble.NO_SPACE,
    ),
    OwnInvariant(
        "space_left",
        "home",
        Severity.CRITICAL,
        lambda readings: _judge_space(readings, DISK_FAILED_BYTES),
        trouble=Trouble.NO_SPACE,
    ),
    OwnInvariant("store_writable", "store", Severity.CRITICAL, _judge_store, grace_s=30.0),
    OwnInvariant("clock_steady", "clock", Severity.WARNING, _judge_clock),
    OwnInvariant("checks_on_time", "monitors", Severity.WARNING, _judge_checks),
    OwnInvariant(
        "runs_move",
        "agents",
        Severity.WARNING,
        lambda readings: (
            f"no progress for {STUCK_S / 60:g} minutes: {readings['stuck']}"
            if readings.get("stuck")
            else ""
        ),
    ),
    OwnInvariant(
        "models_answer",
        "models",
        Severity.WARNING,
        lambda readings: (
            f"fell back to another model {int(_number(readings, 'fallbacks'))} times within"
            f" {WINDOW_S / 60:g} minutes: {readings.get('problem', '')}"
            if _number(readings, "fallbacks") >= FALLBACKS_MAX
            else ""
        ),
    ),
    OwnInvariant(
        "messages_arrive",
        "messages",
        Severity.WARNING,
        lambda readings: str(readings.get("problem", "")),
    ),
)


@dataclass(slots=True)
class OwnSubject:
    """Observes this home, what others wrote into its store, and this machine."""

    app: App
    _clock: tuple[float, float] | None = None
    _jumps: deque[tuple[float, float]] = field(default_factory=deque)
    _counts: deque[tuple[float, Mapping[tuple[str, str], tuple[int, int]]]] = field(
        default_factory=deque
    )
    _read_to: int | None = None
    _fallbacks: deque[tuple[datetime, str]] = field(default_factory=deque)

    @property
    def name(self) -> str:
        """Its name in tickets."""
        return OWN

    @property
    def invariants(self) -> Sequence[OwnInvariant]:
        """What must hold of Operator itself."""
        return INVARIANTS

    def targets(self) -> Sequence[Target]:
        """Its parts."""
        return own_targets()

    async def observe(self) -> Observation:
        """Observe all parts. A part that cannot be observed hides no other."""
        store = await probe_store(self.app)
        readers: Mapping[str, Callable[[], Mapping[str, object]]] = {
            "home": self._read_home,
            "clock": self._read_clock,
            "monitors": self._read_monitors,
            "agents": self._read_agents,
            "models": self._read_models,
            "messages": self._read_messages,
        }
        seen = [Seen("store", store)]
        for name, read in readers.items():
            try:
                seen.append(Seen(name, await asyncio.to_thread(read)))  # type: ignore[arg-type]
            except (OperatorError, OSError) as error:
                seen.append(Seen(name, problem=str(error)))
        return Observation(OWN, self.app.clock.now(), tuple(seen))

    def _read_home(self) -> Mapping[str, object]:
        home = self.app.config.home
        place: Path = next(folder for folder in (home, *home.parents) if folder.is_dir())
        usage = shutil.disk_usage(place)
        return {"free_bytes": usage.free, "size_bytes": usage.total}

    def _read_clock(self) -> Mapping[str, object]:
        """The largest jump of the wall clock within the window."""
        wall_s, steady_s = self.app.clock.now().timestamp(), self.app.clock.monotonic()
        if self._clock is not None:
            jump_s = (wall_s - self._clock[0]) - (steady_s - self._clock[1])
            self._jumps.append((steady_s, jump_s))
        self._clock = (wall_s, steady_s)
        while self._jumps and self._jumps[0][0] < steady_s - WINDOW_S:
            self._jumps.popleft()
        jumps = [jump_s for _, jump_s in self._jumps] or [0.0]
        largest_s: float = max(max(jumps), min(jumps), key=abs)
        return {"jump_s": round(largest_s, 3)}

    def _read_monitors(self) -> Mapping[str, object]:
        """How many checks were skipped or failed within the window, of every monitor."""
        now_s = self.app.clock.monotonic()
        counts = {
            (watcher.worker, watch.subject): (watch.missed, watch.failed)
            for watcher in self.app.store.watchers.find()
            for watch in watcher.watches
        }
        while self._counts and self._counts[0][0] < now_s - WINDOW_S:
            self._counts.popleft()
        oldest = self._counts[0][1] if self._counts else counts
        self._counts.append((now_s, counts))
        missed = failed = 0
        for key, (more, worse) in counts.items():
            before = oldest.get(key, (0, 0))
            missed, failed = missed + more - before[0], failed + worse - before[1]
        return {"missed": missed, "failed": failed}

    def _read_agents(self) -> Mapping[str, object]:
        """Tickets in work that nothing was written about for a long time."""
        store, now = self.app.store, self.app.clock.now()
        stuck = []
        for ticket in store.tickets.find(states=(TicketState.CLAIMED,)):
            newest = store.entries.newest(limit=1, ticket=ticket.id)
            if newest and now - newest[0].at > timedelta(seconds=STUCK_S):
                stuck.append(f"ticket {ticket.id}")
        return {"stuck": ", ".join(stuck)}

    def _read_models(self) -> Mapping[str, object]:
        """How often another model had to answer within the window, and why the last time."""
        entries = self.app.store.entries
        if self._read_to is None:  # what was written before this start may be within the window
            head = entries.newest(limit=1)
            self._read_to = head[0].seq if head else 0
            newest = entries.newest(limit=ENTRIES_READ_MAX, kind=Kind.REASONING)
            self._note_fallbacks(entry for entry in reversed(newest) if entry.seq <= self._read_to)
        while page := entries.after(self._read_to, limit=PAGE_ENTRIES):
            self._read_to = page[-1].seq
            self._note_fallbacks(page)
        since = self.app.clock.now() - timedelta(seconds=WINDOW_S)
        while self._fallbacks and self._fallbacks[0][0] <= since:
            self._fallbacks.popleft()
        problem = self._fallbacks[-1][1] if self._fallbacks else ""
        return {"fallbacks": len(self._fallbacks), "problem": problem}

    def _note_fallbacks(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.kind is Kind.REASONING and entry.payload.get("by"):
                self._fallbacks.append((entry.at, str(entry.payload.get("note", ""))))

    def _read_messages(self) -> Mapping[str, object]:
        """Why notifications do not arrive, by channel."""
        failed = [
            f"{channel.name}: {channel.problem}"
            for channel in notify_status(self.app)
            if channel.configured and channel.problem
        ]
        return {"problem": "; ".join(failed)}


async def probe_store(app: App) -> Mapping[str, float | str]:
    """Write a little, and say how long that took or why it failed."""
    started_s = app.clock.monotonic()
    holder = f"{app.initiator.host}:{app.initiator.process.pid}"
    try:
        name = f"probe/{socket.gethostname()}"
        cursor = await app.store.cursors.claim(name, holder, lease_s=LEASE_S)
        if cursor is not None:
            await app.store.cursors.release(cursor)
    except OperatorError as error:
        return {"write_s": 0.0, "write_problem": str(error)}
    return {"write_s": round(app.clock.monotonic() - started_s, 4), "write_problem": ""}


@dataclass(slots=True)
class StoreAlarm:
    """Notifies people directly while the store cannot be written, and once it can again."""

    channels: Sequence[Channel]
    home: Path
    now_s: Callable[[], float]
    _failures: int = 0
    _sent_at: float | None = None

    async def take(self, problem: str) -> None:
        """Take the result of one probe."""
        if not problem:
            if self._sent_at is not None:
                self._sent_at = None
                await self._send("Operator can write its store again", "Tickets are opened again.")
            self._failures = 0
            return
        self._failures += 1
        waited = self._sent_at is None or self.now_s() - self._sent_at >= ALARM_EVERY_S
        if self._failures < FAILURES_BEFORE_ALARM or not waited:
            return
        self._sent_at = self.now_s()
        free = shutil.disk_usage(self.home if self.home.is_dir() else self.home.parent).free
        await self._send(
            "[critical] Operator cannot write its store",
            f"{problem}\n\nUntil this is repaired, no ticket is opened and nothing is changed.\n"
            f"{format_bytes(free)} free at {self.home}.\n\noperator doctor",
        )

    async def _send(self, title: str, body: str) -> None:
        for channel in self.channels:
            if why := await channel.send(Message(title, body)):
                log.error("%s could not be notified: %s", channel.name, why)


async def watch_own(app: App) -> None:
    """Watch Operator itself until cancelled, unless a configured subject has its name."""
    if not app.is_own(OWN):
        log.warning("a subject is called %r, so Operator does not watch itself", OWN)
        return
    try:
        channels: Sequence[Channel] = configured_channels(app)
    except OperatorError as error:
        # Most homes start without [notify], which is no error.
        level = logging.ERROR if app.config.notices.urls_file else logging.INFO
        log.log(level, "people are not notified when the store cannot be written: %s", error)
        channels = ()
    alarm = StoreAlarm(channels, app.config.home, app.clock.monotonic)
    redactor = open_redactor(app.config)  # the message of an error may quote an address of a server

    async def follow() -> None:
        while True:
            await alarm.take(redactor.text(str((await probe_store(app))["write_problem"])))
            await app.clock.sleep(app.config.number("interval_s"))

    async with asyncio.TaskGroup() as group:
        group.create_task(follow())
        engine = app.engine()
        # What follows the dash tells the monitors of one process apart. Also where several share a
        # store, each watches the home and the clock of its own.
        own = replace(engine, worker=f"{engine.worker}-own", shares=False)
        group.create_task(own.watch([OWN]))
