"""One walk through the whole chain at a time, for everybody who looks."""

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
    """How far it is, who began it, and what it found.

    Progress is written by the thread that walks and read by those who show it; each value is
    replaced as a whole, so that nobody has to wait for anybody.
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
        """Whether somebody walks now."""
        return self._held.locked()

    def begin(self, home: App, by: str) -> bool:
        """Walk beside everything else; False where a walk is under way already."""
        if not self._held.acquire(blocking=False):
            return False
        self.by, self.began_at, self.ended_at = by, home.clock.now(), None
        self.checked, self.total, self.report, self.problem = 0, 0, None, ""
        threading.Thread(target=self._walk, args=(home,), name="walk", daemon=True).start()
        return True

    def close(self) -> None:
        """End a walk that is under way, before what it reads is closed."""
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
