"""The last half hour around a ticket: trends of readings, ends of logs, and changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.change import Change
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.excerpt import find_start
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.run import Comment, LogTail, Trend
from operator_protocols.domain.target import Target, dependencies_of
from operator_protocols.domain.ticket import Ticket
from operator_protocols.ports import Clock, Entries, Observations
from operator_sre.controls import Context

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["changes_of", "comments_of", "context_of", "log_tails", "trends_of"]

WINDOW_S = 1800.0
# Looks are sampled evenly over the window; of many targets fewer, so that it costs always the same.
LOOKS_MAX, LOOKS_MIN = 40, 4
SEEN_MAX = 400
TRENDS_MAX = 40
LOGS_MAX = 3
CHANGES_MAX, CHANGES_PER_TARGET = 12, 4
NOTING_LOOKS = 12
VALUE_CHARS_MAX = 200
OBSERVED = "observation"
# Texts that say what a check measured or how something fails, not how it is configured.
_NOT_STATE = ("error", "problem", "detail", "reason", "_key")
LINES_MAX = 50
LINE_CHARS_MAX = 400
TAIL_BYTES_MAX = 256 * 1024
# About 6,000 tokens; a prompt may hold less.
LOG_CHARS_MAX = 24_000
# Lines before the first that is shown, so that a secret of several lines is recognized.
LINES_BEFORE = 120
# What is shown of a log that says nothing in the window.
SILENT_LINES = 5
COMMENTS_MAX, COMMENTS_READ_MAX = 5, 50
COMMENT_CHARS_MAX = 1000


def context_of(app: App, targets: Callable[[], Sequence[Target]]) -> Callable[[Ticket], Context]:
    """The history that a model receives, without secrets."""
    redact: list[Callable[[str], str]] = []

    def context(ticket: Ticket) -> Context:
        from operator_sre.app.redaction import open_redactor

        if not redact:  # created on first use: a monitor needs none
            redact.append(open_redactor(app.config).text)
        known = targets()
        # What the ticket is about, and then what that depends on.
        broken = list(dict.fromkeys(violation.target for violation in ticket.violations))
        needs = {need for name in broken for need in dependencies_of(name, known)}
        names = [*broken, *sorted(needs.difference(broken))]
        # What the newest observations noted; that of an agent, made between two checks, has none.
        found: dict[tuple[str, str, str], Change] = {}
        for look in reversed(app.store.observations.newest(ticket.subject, limit=NOTING_LOOKS)):
            for change in look.changes:
                found[change.target, change.name, change.source] = change
        noted = list(found.values())
        # A subject may have parts that its description does not list, as a cluster is.
        everyone = {*(target.name for target in known), *(change.target for change in noted)}
        looks = _sample_looks(app.store.observations, app.clock, ticket.subject, len(known))
        since = min((violation.since for violation in ticket.violations), default=ticket.opened_at)
        return Context(
            trends_of(looks, names),
            log_tails(known, names, redact[0], since - timedelta(seconds=WINDOW_S)),
            changes_of(
                looks,
                [*names, *sorted(everyone.difference(names))],
                since,
                redact[0],
                noted=noted,
            ),
        )

    return context


def comments_of(entries: Entries, ticket: Ticket) -> tuple[Comment, ...]:
    """The newest comments of people on a ticket, oldest first, as the ledger has them."""
    kind = Kind.TICKET_COMMENTED
    found = entries.newest(limit=COMMENTS_READ_MAX, ticket=ticket.id, kind=kind)
    words = [
        Comment(entry.actor.id, entry.at, str(entry.payload["text"])[:COMMENT_CHARS_MAX])
        for entry in found
        if entry.actor.type == "user"
    ]
    return tuple(words[:COMMENTS_MAX][::-1])


def trends_of(looks: Sequence[Observation], names: Sequence[str]) -> tuple[Trend, ...]:
    """How every number read of these targets went, oldest look first; what moved comes first."""
    series: dict[tuple[str, str], list[float]] = {}
    wanted = frozenset(names)
    for look in looks:
        for seen in look.seen:
            if seen.target in wanted:
                for reading, value in seen.readings.items():
                    if isinstance(value, int | float) and not isinstance(value, bool):
                        series.setdefault((seen.target, reading), []).append(float(value))
    trends = [
        Trend(target, reading, len(all_), all_[0], all_[-1], min(all_), max(all_))
        for (target, reading), all_ in series.items()
    ]
    place = {name: at for at, name in enumerate(names)}
    trends.sort(key=lambda trend: (trend.low == trend.high, place[trend.target], trend.reading))
    return tuple(trends[:TRENDS_MAX])


def changes_of(
    looks: Sequence[Observation],
    names: Sequence[str],
    since: datetime,
    redact: Callable[[str], str],
    *,
    noted: Sequence[Change] = (),
) -> tuple[Change, ...]:
    """What differs at these targets from the time before the failure.

    First what observations themselves noted as a change, of each target those closest to the
    failure, and then the readings that differ. Only readings that both observations have are
    compared, so that a target that cannot be observed has no changes. Each is dated by the first
    observation that has the new value.
    """
    nearest = sorted(noted, key=lambda change: abs(change.at - since))
    stated = tuple(
        replace(
            change,
            before=redact(change.before)[:VALUE_CHARS_MAX],
            after=redact(change.after)[:VALUE_CHARS_MAX],
        )
        for name in names
        for change in [each for each in nearest if each.target == name][:CHANGES_PER_TARGET]
    )
    return (*stated, *_compare_readings(looks, names, since, redact))[:CHANGES_MAX]


def _compare_readings(
    looks: Sequence[Observation],
    names: Sequence[str],
    since: datetime,
    redact: Callable[[str], str],
) -> tuple[Change, ...]:
    """The texts and settings among the readings that differ from those before the failure."""
    before = next((look for look in reversed(looks) if look.at < since and look.seen), None)
    if before is None:
        return ()
    found: dict[tuple[str, str], tuple[str, str, datetime]] = {}
    for look in (look for look in looks if look.at > before.at):
        for name in names:
            old, new = before.of(name).readings, look.of(name).readings
            for reading in sorted(old.keys() & new.keys()):
                was, now = old[reading], new[reading]
                is_text = isinstance(was, str) and isinstance(now, str) and bool(was and now)
                is_state = is_text or reading.startswith("setting_")
                if not is_state or reading.endswith(_NOT_STATE):
                    continue
                now = "(none)" if now is None else now
                key = name, reading
                if was == now:
                    found.pop(key, None)  # it is again as it was
                elif key not in found or found[key][1] != str(now):
                    found[key] = str(was), str(now), look.at
    return tuple(
        Change(
            target=name,
            name=reading,
            before=redact(was)[:VALUE_CHARS_MAX],
            after=redact(now)[:VALUE_CHARS_MAX],
            at=at,
            source=OBSERVED,
        )
        for (name, reading), (was, now, at) in list(found.items())[:CHANGES_MAX]
    )


def log_tails(
    targets: Iterable[Target],
    names: Sequence[str],
    redact: Callable[[str], str],
    since: datetime | None = None,
) -> tuple[LogTail, ...]:
    """The logs of these targets on this machine, in the order of the names.

    Of each, what is newer than `since`, and at most `LOG_CHARS_MAX` of the newest.
    """
    logs = {target.name: target.log for target in targets if target.log and not target.runs_at}
    found: list[LogTail] = []
    for name in names:
        is_shown = name in logs and len(found) < LOGS_MAX
        lines = _read_tail(logs[name], redact, since) if is_shown else ()
        if lines:
            found.append(LogTail(name, lines))
    return tuple(found)


def _sample_looks(
    observations: Observations, clock: Clock, subject: str, targets: int
) -> list[Observation]:
    """Looks of the window, evenly spaced, oldest first, and the newest one."""
    count = max(LOOKS_MIN, min(LOOKS_MAX, SEEN_MAX // max(targets, 1)))
    newest = observations.newest(subject, limit=1)
    if not newest:
        return []
    at = clock.now() - timedelta(seconds=WINDOW_S)
    step = timedelta(seconds=WINDOW_S / count)
    found: list[Observation] = []
    while at < newest[0].at:
        following = observations.after(subject, at, limit=1)
        if not following:
            break
        found.append(following[0])
        # Where there was no look for a while, there is none to be asked for.
        at = max(at + step, following[0].at)
    return found if found and found[-1].at == newest[0].at else [*found, newest[0]]


def _read_tail(path: str, redact: Callable[[str], str], since: datetime | None) -> tuple[str, ...]:
    """The last lines of a file that can be read; a pipe or a device is left alone."""
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(Path(path).expanduser(), flags)
    except OSError:
        return ()
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ()
        begin = max(0, status.st_size - TAIL_BYTES_MAX)
        data = os.pread(descriptor, TAIL_BYTES_MAX, begin)
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    # Where only the end was read, its first lines may belong to what stands before them.
    data = data[find_start(data, inside=True) if begin else 0 :]
    whole = data.decode(errors="replace").splitlines()
    first = _first_recent(whole, since)
    # Redacted before anything is left out: a secret may take several lines, or more than one has.
    shown = redact("\n".join(whole[max(0, first - LINES_BEFORE) :])).splitlines()
    count = len(whole) - first
    return tuple(line[:LINE_CHARS_MAX] for line in (shown[-count:] if count else ()))


def _first_recent(lines: Sequence[str], since: datetime | None) -> int:
    """Where the lines begin that belong to the window.

    A line without a time belongs to the line before it. Of a log without any times the last lines
    count, and of a log that is silent in the window its last few.
    """
    from operator_sre.app.models import read_time

    chars, is_timed, first = 0, False, len(lines)
    for place in range(len(lines) - 1, -1, -1):
        chars += min(len(lines[place]), LINE_CHARS_MAX) + 1
        if chars > LOG_CHARS_MAX or (not is_timed and len(lines) - place > LINES_MAX):
            break
        at = read_time(lines[place][:LINE_CHARS_MAX], since)
        if at is not None:
            is_timed = True
            if since is not None and at < since:
                break
            first = place
        elif not is_timed:
            first = place
    is_silent = since is not None and is_timed and first == len(lines)
    return max(0, len(lines) - SILENT_LINES) if is_silent else first
