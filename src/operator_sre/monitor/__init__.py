"""1 WATCH: look at subjects, check their invariants, keep the clocks of what is broken."""

from __future__ import annotations

from operator_sre.monitor.conditions import advance, violations_of
from operator_sre.monitor.look import OBSERVABLE, Monitor, Watched

__all__ = ["OBSERVABLE", "Monitor", "Watched", "advance", "violations_of"]
