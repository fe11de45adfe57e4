"""1 WATCH: look at subjects, check their invariants, keep the clocks of what is broken."""

from __future__ import annotations

from operator_sre.monitor.monitor import (
    OBSERVABLE,
    Monitor,
    Spell,
    Watched,
    WatchStats,
    advance,
    find_departed,
    findings_of,
    replay,
    run_check,
    skip_gap,
    violations_of,
)

__all__ = [
    "OBSERVABLE",
    "Monitor",
    "Spell",
    "WatchStats",
    "Watched",
    "advance",
    "find_departed",
    "findings_of",
    "replay",
    "run_check",
    "skip_gap",
    "violations_of",
]
