"""Our own figures for whoever scrapes them by the API."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from operator_sre.app.metrics import Meter
from operator_sre.telemetry.metrics import CONTENT_TYPE, exposition

__all__ = ["METRICS_TYPE", "Scraped"]

METRICS_TYPE = CONTENT_TYPE


@dataclass(slots=True)
class Scraped:
    """Counts what the ledger holds from now on; two who scrape at once wait for each other."""

    meter: Meter
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def text(self) -> bytes:
        """The text that Prometheus scrapes."""
        with self._turn:
            self.meter.follow()
            return exposition(self.meter.figures)
