"""What the clients of a data system experience: what is checked, and the errors that they get."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from operator_protocols.domain.observation import Seen, Trouble, Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.invariant import WELL, Opinion, broken, number_of

__all__ = [
    "ALL_CHECKED",
    "CLIENT_VIEW",
    "ERRORS_PER_S_MAX",
    "READS_CHECKED",
    "UNCHECKED",
    "WINDOW_S_MAX",
    "ErrorRates",
    "LogErrors",
    "LogReader",
    "judge_client_errors",
]

# The reading that says how far a target is checked as its clients use it.
CLIENT_VIEW = "client_view"
ALL_CHECKED = "reads and writes checked"
READS_CHECKED = "reads checked, writes not checked"
UNCHECKED = "reads and writes of clients not checked"

ERRORS_PER_S_MAX = 0.5
WINDOW_S = 10.0
# A rate over more than this is not about now. Checks are 30 s apart by default.
WINDOW_S_MAX = 90.0
SAMPLES_MAX = 200
READ_BYTES_MAX = 256 << 10
LINE_CHARS_MAX = 160
# What is counted, by the name that causes refer to.
_WORDS: Mapping[str, str] = {
    "login": "logins rejected",
    "permission": "requests denied",
    "read_only": "writes rejected as read-only",
    "refused": "connections refused",
    "no_space": "writes rejected for lack of space",
    "timeout": "statements timed out",
    "aborted": "statements aborted",
}
_TROUBLES: Mapping[str, Trouble] = {
    "login": Trouble.CREDENTIAL,
    "permission": Trouble.CREDENTIAL,
    "no_space": Trouble.NO_SPACE,
}


class ErrorRates:
    """How many errors of each kind a server counted per second, over the last seconds."""

    def __init__(self) -> None:
        self._samples: defaultdict[str, deque[tuple[float, Mapping[str, int]]]] = defaultdict(
            lambda: deque(maxlen=SAMPLES_MAX)
        )
        self._explained_until: dict[tuple[str, str], float] = {}

    def readings(
        self,
        target: str,
        totals: Mapping[str, int],
        at: float,
        *,
        explained: Iterable[str] = (),
        example: str = "",
    ) -> dict[str, Value]:
        """The most frequent kind and its rate; nothing at the first check.

        The count starts over when a server counts from 0 again, and when the check before was too
        long ago: errors since then may be old. `explained` are kinds that follow
        from another break: they are not counted until a while after it. `example` is one error.
        """
        for kind in explained:
            self._explained_until[target, kind] = at + WINDOW_S
        counts = {
            kind: count
            for kind, count in totals.items()
            if self._explained_until.get((target, kind), at) <= at
        }
        samples = self._samples[target]
        if samples and any(count < samples[-1][1].get(kind, 0) for kind, count in counts.items()):
            samples.clear()
        while samples and at - samples[0][0] > WINDOW_S_MAX:
            samples.popleft()
        samples.append((at, counts))
        while len(samples) > 2 and at - samples[1][0] >= WINDOW_S:
            samples.popleft()
        began, before = samples[0]
        if at <= began:
            return {}
        # A few errors shortly after the start are no rate yet.
        passed_s = max(at - began, WINDOW_S)
        rates = {kind: (n - before.get(kind, n)) / passed_s for kind, n in counts.items()}
        kind = max(sorted(rates), key=lambda name: rates[name], default="")
        found: dict[str, Value] = {"client_errors_per_s": round(rates.get(kind, 0.0), 2)}
        if rates.get(kind):
            found["client_errors_kind"] = kind
            if example:
                found["client_error"] = example[:LINE_CHARS_MAX]
        return found


def judge_client_errors(seen: Seen, most_per_s: float = ERRORS_PER_S_MAX) -> Opinion | None:
    """Broken when clients get errors too often; None where errors are not counted (yet)."""
    rate, kind = number_of(seen, "client_errors_per_s"), seen.readings.get("client_errors_kind")
    if rate is None:
        return None
    if rate <= most_per_s or not isinstance(kind, str):
        return WELL
    detail = f"{rate:.1f} errors/s of clients: {_WORDS.get(kind, kind)}"
    example = seen.readings.get("client_error")
    return broken(detail + (f" ({example})" if example else ""), _TROUBLES.get(kind))


@dataclass(slots=True)
class LogReader:
    """The lines that were added to logs on this machine since they were last read."""

    _ends: dict[str, tuple[int, int]] = field(default_factory=dict)

    def read_added(self, path: str) -> list[str] | None:
        """The new whole lines, at most 256 kB; the first call begins at the end of the log.

        None where the log cannot be read. Never raises.
        """
        log = Path(path)
        try:
            state = log.stat()
            inode, begins = self._ends.get(path, (state.st_ino, state.st_size))
            if inode != state.st_ino or begins > state.st_size:
                begins = 0  # the file was truncated or replaced
            begins = max(begins, state.st_size - READ_BYTES_MAX)
            with log.open("rb") as content:
                content.seek(begins)
                read = content.read(READ_BYTES_MAX)
        except (OSError, ValueError):
            return None
        # A line that is still being written is left for the next check.
        whole = read[: read.rfind(b"\n") + 1]
        self._ends[path] = (state.st_ino, begins + len(whole))
        return whole.decode("utf-8", "replace").splitlines()


@dataclass(slots=True)
class LogErrors:
    """Errors of clients in the logs of servers, by kind, since the first check.

    `kinds` are patterns; the first that fits a line counts. Lines that fit `ours` are about
    Operator itself.
    """

    kinds: Mapping[str, re.Pattern[str]]
    ours: re.Pattern[str]
    _reader: LogReader = field(default_factory=LogReader)
    _totals: dict[str, dict[str, int]] = field(default_factory=dict)
    _examples: dict[str, str] = field(default_factory=dict)

    def count(self, target: Target) -> tuple[Mapping[str, int], str]:
        """The totals by kind, and the last line that counted; nothing without a readable log."""
        lines = self._reader.read_added(target.log) if target.log and not target.runs_at else None
        if lines is None:
            return {}, ""
        totals = self._totals.setdefault(target.name, dict.fromkeys(self.kinds, 0))
        for line in lines:
            kind = next((kind for kind, words in self.kinds.items() if words.search(line)), "")
            if kind and not self.ours.search(line):
                totals[kind] += 1
                self._examples[target.name] = line
        return dict(totals), self._examples.get(target.name, "")
