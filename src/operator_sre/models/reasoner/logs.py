"""The decisive line of a log: since the failure began, without stack frames and our own traces.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from operator_sre.models.reasoner.symptoms import REASONS, SYMPTOMS, WEAK_REASONS, meaning

__all__ = ["LINES_READ", "read_log", "read_time"]

LINES_READ = 200
# A failure begins a little before the first check that finds it.
BEFORE_FAILURE = timedelta(seconds=60)
LAST_LINES = 5
LINE_CHARS_MAX, QUOTE_CHARS_MAX = 4000, 500
NEIGHBOURS_MAX = 3
EARLIEST_YEAR = 1990
HEAD_CHARS = 160  # where a line has its time and its level

_ERRORS = re.compile(r"\b(error|fatal|panic|exception|traceback|refused|out of memory)\b", re.I)
_ENDED = re.compile(
    r"\b(shutting down|shutdown|stopped|exiting|bye|terminated(?! with success))\b", re.I
)
_STARTED = re.compile(r"\b(started|starting|serving|listening|ready|accepting)\b", re.I)
# The stack trace of a crash: many lines that do not name the reason.
_FRAME = re.compile(
    r"\s|goroutine \d|created by |[\w.*/()-]+\(.*\)( .*fp=.*)?$|runtime stack:|\[signal "
    r"|r\w{1,2}\s+0x|$"
)
_STACK = re.compile(r',"stacktrace":"(?:[^"\\]|\\.)*"?')
# What a port check or a client of ours leaves behind, and answers to clients of a server that is
# about to start or to stop: no reason of a failure.
_TRACES = re.compile(
    r"(incomplete|invalid length of) startup packet|the database system is (starting|shutting)"
    r"|the database system is not (yet )?accepting|rejected connection.*\bEOF\b"
    r"|unexpected EOF on client connection|first record does not look like a TLS"
    r"|security attack detected|unsupported frontend protocol|\bbroken pipe\b"
    # MySQL and MariaDB: the client ended it, whatever the words in brackets say.
    r"|\baborted connection \d+ to db\b",
    re.I,
)
_FATAL = re.compile(
    r'"level":"(fatal|panic|dpanic)"|\b(FATAL|PANIC|EMERG|CRIT|CRITICAL)\b|^panic:|\bfatal error\b'
    r"|^fatal\b|\bFatal\b|, aborting\b"
)
_QUIET = re.compile(r'"level":"(info|debug)"|\b(INFO|DEBUG|NOTICE|TRACE)\b')

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_ISO = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,]\d+)?\s?(Z|UTC|GMT|[+-]\d\d:?\d\d)?"
)
_DAY_FIRST = re.compile(
    r"(\d\d?)[ /-]([A-Z][a-z]{2})[ /-](\d{4})[ :](\d\d):(\d\d):(\d\d)(?:\.\d+)?\s?([+-]\d{4})?"
)
_SYSLOG = re.compile(r"([A-Z][a-z]{2})\s+(\d\d?) (\d\d):(\d\d):(\d\d)")
_KLOG = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.\d+")
_EPOCH = re.compile(r'"(?:ts|time|timestamp)":\s?"?(\d{10})(?:\d{3}\b|\.\d+|\b)')


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    at: datetime | None
    place: int

    @property
    def fatal(self) -> bool:
        return bool(_FATAL.search(self.text[:HEAD_CHARS]))


def read_log(text: str, since: datetime | None = None) -> tuple[str, str]:
    """The outcome of reading the end of a log, and a sentence that quotes its decisive line."""
    lines, dated = _read_lines(text, since)
    if dated and not lines:
        return "quiet", "nothing was logged since the failure began"
    # Lines before the last start are about an earlier process, if that one exited.
    starts = [at for at, line in enumerate(lines) if _STARTED.search(line.text)]
    if starts and any(_ENDED.search(line.text) for line in lines[: starts[-1]]):
        lines = lines[starts[-1] :]
    last = lines[-LAST_LINES:]
    if (found := _find_reason(lines, last)) is not None:
        reason, place = found
        return reason, f"the log shows {SYMPTOMS[reason].noun}: {_quote(lines, place, reason)!r}"
    for state, pattern in (("ended", _ENDED), ("errors", _ERRORS)):
        telling = [line for line in last if pattern.search(line.text)]
        if telling:
            return state, f"the log shows {_shorten(telling[-1].text)[:QUOTE_CHARS_MAX]!r}"
    return "quiet", "the last log lines show no error"


def _read_lines(text: str, since: datetime | None) -> tuple[list[_Line], bool]:
    """The lines that count, and whether any line of this log has a time."""
    rows = text.splitlines()
    kept = [(place, row) for place, row in enumerate(rows) if not _FRAME.match(row)]
    kept = kept or list(enumerate(rows))
    lines = [
        _Line(row[:LINE_CHARS_MAX], read_time(row[:HEAD_CHARS], since), place)
        for place, row in kept
        if not _TRACES.search(row[:LINE_CHARS_MAX])
    ][-LINES_READ:]
    places = [at for at, line in enumerate(lines) if line.at is not None]
    if since is None or not places:
        return lines, bool(places)
    counting, counts = [], False
    for at, line in enumerate(lines):
        if line.at is not None:
            counts = line.at >= since - BEFORE_FAILURE
        # The last words of a process have no time where it failed before it could write one.
        if counts or at > places[-1]:
            counting.append(line)
    return counting, True


def _find_reason(lines: Sequence[_Line], last: Sequence[_Line]) -> tuple[str, int] | None:
    """The most telling reason: a fatal line counts wherever it is, others among the last lines."""
    best: tuple[tuple[bool, bool, int], str] | None = None
    for place, line in enumerate(lines):
        recent = place >= len(lines) - len(last)
        if not (recent or line.fatal) or _QUIET.search(line.text[:HEAD_CHARS]):
            continue
        reason = meaning(_shorten(line.text), among=REASONS)
        weak = reason in WEAK_REASONS
        if not reason or (weak and not recent):
            continue
        rank = (not weak, line.fatal, place)
        if best is None or rank > best[0]:
            best = rank, reason
    return None if best is None else (best[1], best[0][2])


def _quote(lines: Sequence[_Line], place: int, reason: str) -> str:
    """The line, with the lines that belong to it where the reason takes several."""
    first = after = place
    if lines[place].at is None:
        while first > 0 and place - first < NEIGHBOURS_MAX and lines[first - 1].at is None:
            first -= 1
        while after + 1 < len(lines) and after - place < NEIGHBOURS_MAX:
            if lines[after + 1].at is not None:
                break
            after += 1
    elif lines[place].fatal:
        # A server often explains what was wrong before it says that it gives up.
        before = range(max(0, place - NEIGHBOURS_MAX), place)
        explained = (at for at in before if meaning(lines[at].text, among=(reason,)))
        first = next((at for at in explained if not lines[at].fatal), place)
    # Neighbours are for context: never at the price of the line itself.
    around = [_shorten(line.text) for line in lines[first : after + 1]]
    joined = " / ".join(around)
    if len(joined) > QUOTE_CHARS_MAX:
        joined = _shorten(lines[place].text)
    return joined[:QUOTE_CHARS_MAX]


def _shorten(text: str) -> str:
    """A line of JSON without its stack trace."""
    return _STACK.sub("", text).strip()


def read_time(head: str, since: datetime | None) -> datetime | None:
    """The time of a line; one without a zone is of this machine's zone."""
    # A time without a year is of this year, whichever that is.
    year = str(since.year) if since is not None else "0"
    zone: str | None = None
    if match := _EPOCH.search(head):
        return datetime.fromtimestamp(int(match[1]), UTC)
    if match := _ISO.search(head):
        *parts, zone = match.groups()
    elif match := _DAY_FIRST.search(head):
        day, month, year, *clock, zone = match.groups()
        parts = [year, _number(month), day, *clock]
    elif match := _SYSLOG.search(head):
        month, day, *clock = match.groups()
        parts = [year, _number(month), day, *clock]
    elif match := _KLOG.match(head):
        parts = [year, *match.groups()]
    else:
        return None
    written, form = " ".join(parts), "%Y %m %d %H %M %S"
    try:
        if zone is None:
            at = datetime.strptime(written, form).astimezone()
        else:
            offset = "+0000" if zone in ("Z", "UTC", "GMT") else zone.replace(":", "")
            at = datetime.strptime(f"{written} {offset}", f"{form} %z")
        return at.astimezone(UTC) if at.year >= EARLIEST_YEAR else None
    except (ValueError, OverflowError, OSError):
        return None


def _number(month: str) -> str:
    return str(_MONTHS.index(month) + 1) if month in _MONTHS else "0"
