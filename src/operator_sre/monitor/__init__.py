"""1 WATCH: look at subjects, check their invariants, keep the clocks of what is broken."""

from __future__ import annotations

from operator_sre.monitor.conditions import advance, departed, unwatched, violations_of
from operator_sre.monitor.look import OBSERVABLE, Monitor, Watched, findings_of, sight
from operator_sre.monitor.replay import Spell, replay
from operator_sre.monitor.stats import WatchStats

__all__ = [
    "OBSERVABLE",
    "Monitor",
    "Spell",
    "WatchStats",
    "Watched",
    "advance",
    "departed",
    "findings_of",
    "replay",
    "sight",
    "unwatched",
    "violations_of",
]
