"""How far something is that takes its time: on a terminal, on one line that leaves no trace."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from operator_sre.faces.cli.output import is_quiet

__all__ = ["progress", "told", "waiting"]

# What is over before that needs no line; often enough from then on to see that it moves.
QUICK_S = 0.5
EVERY_S = 0.2


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], None]]:
    """What to call with the number of entries that are done; only a terminal is shown anything."""
    counted = [0]
    with _shown(lambda: f"{counted[0]} entries {what}" if counted[0] else "working"):
        yield lambda count: counted.__setitem__(0, count)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """That something is waited for whose end nobody knows; only a terminal is shown anything."""
    with _shown(lambda: what):
        yield


@contextmanager
def told(text: Callable[[], str]) -> Iterator[None]:
    """What a text says at each moment, and for how long by now; only a terminal is shown it."""
    with _shown(text):
        yield


@contextmanager
def _shown(text: Callable[[], str]) -> Iterator[None]:
    if not sys.stderr.isatty() or is_quiet():
        yield
        return
    over = threading.Event()
    # A thread of its own: a database that is busy for a minute calls nobody.
    showing = threading.Thread(target=_show, args=(text, over), daemon=True)
    showing.start()
    try:
        yield
    finally:
        over.set()
        showing.join()


def _show(text: Callable[[], str], over: threading.Event) -> None:
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
