"""How far something is that takes its time: on a terminal, on one line that leaves no trace."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from operator_sre.faces.cli.output import is_quiet

__all__ = ["progress"]

# What is over before that needs no line; often enough from then on to see that it moves.
QUICK_S = 0.5
EVERY_S = 0.2


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], None]]:
    """What to call with the number of entries that are done; only a terminal is shown anything."""
    counted = [0]
    if not sys.stderr.isatty() or is_quiet():
        yield lambda count: None
        return
    over = threading.Event()
    # A thread of its own: a database that is busy for a minute calls nobody.
    showing = threading.Thread(target=_show, args=(what, counted, over), daemon=True)
    showing.start()
    try:
        yield lambda count: counted.__setitem__(0, count)
    finally:
        over.set()
        showing.join()


def _show(what: str, counted: list[int], over: threading.Event) -> None:
    began = time.monotonic()
    if over.wait(QUICK_S):
        return
    while True:
        spent_s = time.monotonic() - began
        entries = f"{counted[0]} entries {what}" if counted[0] else "working"
        sys.stderr.write(f"\r{entries}, {spent_s:.0f} s\x1b[K")
        sys.stderr.flush()
        if over.wait(EVERY_S):
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            return
