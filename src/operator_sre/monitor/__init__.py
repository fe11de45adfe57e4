"""1 WATCH: observe subjects, check their invariants, track how long each is broken."""

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
