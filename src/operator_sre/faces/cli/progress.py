"""Progress of slow commands on a terminal, on one line that is removed at the end."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from operator_sre.faces.cli.output import clean, is_quiet

__all__ = ["Screen", "harmless", "progress", "show_progress", "waiting"]

# Everything outside printable ASCII is cleaned.
_SUSPECT = re.compile(r"[^\n\t -~]")


def harmless(data: bytes) -> str:
    """Bytes as a terminal may be given them: what it would obey is shown instead, as \\xNN."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return _SUSPECT.sub(lambda found: clean(found[0]), text)


class Screen:
    """Passes output on, stdout to stdout and stderr to stderr, in the order in which it comes.

    Programs get the bytes unchanged; a terminal gets no control characters. `gone` is called once
    when stdout has no reader any more.
    """

    def __init__(self, gone: Callable[[], object]) -> None:
        self._gone = gone
        self._streams: dict[int, TextIO] = {1: sys.stdout, 2: sys.stderr}
        self._is_lost: set[int] = set()
        self._in_line = {1: False, 2: False}
        self._is_stopped = False
        self.heard: set[int] = set()

    def show(self, number: int, data: bytes) -> bool:
        """Show the next bytes of stdout (1) or stderr (2); return whether more are wanted."""
        self.heard.add(number)
        if not self._is_stopped:
            self._pass_on(number, data)
        return not self._is_stopped and number not in self._is_lost

    def say(self, sentence: str) -> None:
        """Print a message of Operator on stderr, on its own line."""
        if self._in_line[2] or (self._in_line[1] and self._streams[1].isatty()):
            self._pass_on(2, b"\n")
            self._in_line[1] = False
        line = clean(f"operator: {sentence}").encode(errors="backslashreplace")
        self._pass_on(2, line + b"\n")

    def stop(self) -> None:
        """Show no more output of the command, after Ctrl-C."""
        self._is_stopped = True
        # A terminal has written `^C` in the middle of a line.
        self._in_line[2] = self._in_line[2] or self._streams[2].isatty()

    def _pass_on(self, number: int, data: bytes) -> None:
        if not data or number in self._is_lost:
            return
        self._in_line[number] = not data.endswith(b"\n")
        try:
            self._write(self._streams[number], data)
        except OSError:  # a reader that went away (`| head`), or a disk that is full
            self._is_lost.add(number)
            if number == 1:
                self._gone()

    @staticmethod
    def _write(stream: TextIO, data: bytes) -> None:
        if stream.isatty():
            stream.write(harmless(data))
        else:
            stream.flush()
            stream.buffer.write(data)
        stream.flush()


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
