"""The policy as it is on disk now: a change counts within seconds, a broken one never."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from operator_protocols.errors import ConfigError
from operator_sre.gate.policy.policy import Rulebook, built_in
from operator_sre.ownership import must_be_trusted

__all__ = ["LOOK_S", "SETTLE_S", "PolicyFile"]

LOOK_S = 1.0
# A file that changed is read when it has been the same for so long, for editors write in pieces.
SETTLE_S = 0.2
Stamp = tuple[str, int, int, int]
log = logging.getLogger(__name__)


class PolicyFile:
    """The first of some files that exists, or the built-in rules; followed as it changes.

    The first load fails if the file is wrong. Later the last good rules stay in force, and
    `trouble` says what is wrong.
    """

    def __init__(
        self, files: Sequence[Path], *, monotonic: Callable[[], float], required: bool = False
    ) -> None:
        self._files = tuple(files)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._stamp = self._now()
        if required and self._stamp is None:
            raise ConfigError(
                f"{self._files[0]}:1:1: There is no such policy.",
                next_step="operator policy init writes one to start from.",
            )
        self._pending = self._stamp
        self._book = _load_rules(self._stamp)
        self.file = _file_of(self._stamp)  # the file in force; None for the built-in rules
        self._look_at = monotonic() + LOOK_S
        self.trouble = ""

    def book(self) -> Rulebook:
        """The rules in force."""
        if self._monotonic() < self._look_at or not self._lock.acquire(blocking=False):
            return self._book  # another thread is checking: the rules in force are one whole value
        try:
            self._look()
        finally:
            self._lock.release()
        return self._book

    def _look(self) -> None:
        now = self._now()
        settled, self._pending = now == self._pending, now
        self._look_at = self._monotonic() + (LOOK_S if settled else SETTLE_S)
        if now == self._stamp or not settled:
            return
        if now is None:
            self._stamp = None
            self._complain(f"{self.file}:1:1: The policy is gone.")
            return
        try:
            book = _load_rules(now)
        except ConfigError as error:
            if self._now() == now:  # else it was read while it was written
                self._complain(str(error))
                self._stamp = now
            return
        if self._now() == now:
            self._stamp, self._book, self.trouble = now, book, ""
            self.file = _file_of(now)
            log.info("the policy %s is in force: %s", now[0], book.digest)

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("the old policy stays in force: %s", trouble)
        self.trouble = trouble

    def _now(self) -> Stamp | None:
        for file in self._files:
            try:
                found = file.stat()
            except OSError:
                continue
            return (str(file), found.st_mtime_ns, found.st_size, found.st_ino)
        return None


def _file_of(stamp: Stamp | None) -> Path | None:
    return Path(stamp[0]) if stamp else None


def _load_rules(stamp: Stamp | None) -> Rulebook:
    if stamp is None:
        return built_in()
    # Most homes have no policy of their own, and start without what reads one.
    from operator_sre.gate.policy.load import load_book

    must_be_trusted(Path(stamp[0]), ConfigError)
    return load_book(Path(stamp[0]))
