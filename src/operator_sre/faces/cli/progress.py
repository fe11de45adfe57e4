"""Progress of slow commands on a terminal, on one line that is removed at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from operator_sre.faces.cli.output import is_quiet

__all__ = ["progress", "show_progress", "waiting"]

# Shorter work shows nothing; longer work is updated often enough to look alive.
QUICK_S = 0.5
EVERY_S = 0.2


@contextmanager
def progress(work: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of processed entries; only terminals show it."""
    counted = [0]
    with _show(lambda: f"{counted[0]} entries {work}" if counted[0] else "working"):
        yield lambda count: counted.__setitem__(0, count)


@contextmanager
def waiting(work: str) -> Iterator[None]:
    """Show that work of unknown duration is under way; only on terminals."""
    with _show(lambda: work):
        yield


@contextmanager
def show_progress(text: Callable[[], str]) -> Iterator[None]:
    """Show a changing text and the time spent; only on terminals."""
    with _show(text):
        yield


@contextmanager
def _show(text: Callable[[], str]) -> Iterator[None]:
    if not sys.stderr.isatty() or is_quiet():
        yield
        return
    over = threading.Event()

    def show() -> None:
        began = time.monotonic()
        if over.wait(QUICK_S):
            return
        while True:
            spent_s = time.monotonic() - began
            sys.stderr.write(f"\r{text()}, {spent_s:.0f} s\x1b[K")
            sys.stderr.flush()
            if over.wait(EVERY_S):
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                return

    # A separate thread, because a busy database does not call back for a minute.
    showing = threading.Thread(target=show, daemon=True)
    showing.start()
    try:
        yield
    finally:
        over.set()
        showing.join()
