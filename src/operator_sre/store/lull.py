"""A lull: the one who writes waits for the disk, and the interpreter is free for another thread."""

from __future__ import annotations

import queue
import time

__all__ = ["Lull"]

FORGET = 0.1  # how much the newest lull counts in the average


class Lull:
    """Lets a thread work just while another one waits for the disk.

    Only one thread computes at a time, and one that comes back from the disk has to wait until
    the other gives way, which by itself it does only after milliseconds.
    """

    def __init__(self) -> None:
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._wanted = False
        self._began = self._rang = 0.0
        self._average_s = 0.0

    def __enter__(self) -> None:
        if self._wanted:
            self._wanted = False
            self._began = self._rang = time.perf_counter()
            self._bell.put(None)

    def __exit__(self, *_: object) -> None:
        if self._began:
            self._average_s += FORGET * (time.perf_counter() - self._began - self._average_s)
            self._began = 0.0

    def wait(self, *, limit_s: float, share: float) -> float | None:
        """Wait for the next one; when so much of it is over, None when there was none for so long.

        The time is that of `time.perf_counter`. It may have passed for whoever wakes up slowly.
        """
        self._wanted = True
        try:
            self._bell.get(timeout=limit_s)
        except queue.Empty:
            return None
        return self._rang + share * self._average_s
