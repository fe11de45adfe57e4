"""Verifies the whole chain in the background, once at a time, for all viewers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from operator_protocols.errors import OperatorError
from operator_sre.app.audit import Report, tail, verify_ledger

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Walk"]

CLOSE_S_MAX = 10.0


@dataclass(slots=True)
class Walk:
    """A verification: its progress, who started it, and its result.

    One thread writes the progress and others read it; each value is replaced as a whole, so that
    no lock is needed.
    """

    by: str = ""
    began_at: datetime | None = None
    ended_at: datetime | None = None
    checked: int = 0
    total: int = 0
    report: Report | None = None
    problem: str = ""
    _held: threading.Lock = field(default_factory=threading.Lock)
    _closing: bool = False

    @property
    def running(self) -> bool:
        """Whether a verification runs now."""
        return self._held.locked()

    def begin(self, home: App, by: str) -> bool:
        """Start in the background; False if a verification is already running."""
        if not self._held.acquire(blocking=False):
            return False
        self.by, self.began_at, self.ended_at = by, home.clock.now(), None
        self.checked, self.total, self.report, self.problem = 0, 0, None, ""
        threading.Thread(target=self._walk, args=(home,), name="walk", daemon=True).start()
        return True

    def close(self) -> None:
        """Stop a running verification before the store is closed."""
        self._closing = True
        if self._held.acquire(timeout=CLOSE_S_MAX):
            self._held.release()

    def _walk(self, home: App) -> None:
        try:
            newest = tail(home, count=1)
            self.total = newest[0].seq if newest else 0
            self.report = verify_ledger(home, progress=self._tell)
        except OperatorError as error:
            self.problem = error.message
        finally:
            self.ended_at = home.clock.now()
            self._held.release()

    def _tell(self, seq: int) -> None:
        self.checked = seq
        if self._closing:
            raise OperatorError("The console was stopped.")
