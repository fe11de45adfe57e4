"""Log lines for people: UTC time, level, message, to stderr."""

import logging
import time
from collections.abc import Callable

__all__ = ["Sparse", "configure_logging"]

_REPEAT_S = 10.0


class Sparse(logging.Filter):
    """Lets the same message pass once in a while only.

    A loop that cannot accept for want of files says so thousands of times a second, which would
    fill a disk while it is already in trouble.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this one is written; the format counts, not what is filled in."""
        now_s, message = self._clock(), str(record.msg)[:80]
        if now_s - self._said.get(message, -_REPEAT_S) < _REPEAT_S:
            return False
        if len(self._said) > 100:
            self._said.clear()
        self._said[message] = now_s
        return True


def configure_logging() -> None:
    """Send every log line of this process to stderr as plain text."""
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # The server's own start and stop lines would repeat the node's.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").addFilter(Sparse())
