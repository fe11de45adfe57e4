"""The journal of a machine: how many lines of a unit are errors, or match a pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass

from operator_protocols.domain.excerpt import keep_last_line
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.patterns import pattern_of
from operator_sre.subjects.declarative.probes.place import Blind, Place, up
from operator_sre.subjects.declarative.probes.there import run_there
from operator_sre.subjects.declarative.values import Readings, plain

__all__ = ["KEYS", "JournalProbe", "read_journald"]

KEYS = ("unit", "within", "priority", "matches")
LINES_MAX = 1000
PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_UNIT = re.compile(r"[A-Za-z0-9@._:\\-]{1,200}")


@dataclass(frozen=True, slots=True)
class JournalProbe:
    """Lines of the last seconds, read by journalctl where the target runs."""

    unit: str = ""
    within_s: float = 300.0
    priority: str = ""
    matches: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        return frozenset({"up", "ok", "error", "lines", "matched", "newest"})

    async def observe(self, place: Place) -> Readings:
        """Read at most a thousand lines, the newest."""
        words = ["journalctl", "--no-pager", "--quiet", "--output=cat"]
        words += [f"--since=-{self.within_s:.0f}s", f"--lines={LINES_MAX}"]
        words += [f"--unit={self.unit}"] if self.unit else []
        words += [f"--priority={self.priority}"] if self.priority else []
        result = await run_there(place, *words)
        if result.exit_code:
            raise Blind(f"the journal cannot be read: {keep_last_line(result.stderr, 120)}")
        lines = [line for line in result.stdout.splitlines() if line.strip()]
        if self.matches:
            wanted = pattern_of(self.matches)
            lines = [line for line in lines if wanted.search(line)]
        readings: Readings = {"lines": len(lines), "matched": bool(lines)}
        if lines:
            readings["newest"] = plain(lines[-1])
        return up(readings, "")


def read_journald(table: Table) -> JournalProbe:
    """Parse the probe of a description."""
    unit = table.text("unit")
    if unit and (not _UNIT.fullmatch(unit) or unit.startswith("-")):
        raise table.wrong(f"{unit[:60]!r} is not a valid name of a unit.", "unit")
    return JournalProbe(
        unit=unit,
        within_s=max(1.0, table.seconds("within", 300.0)),
        priority=table.choice("priority", PRIORITIES, "") if "priority" in table else "",
        matches=table.regex("matches"),
    )
