"""A terminal driver that never blocks on a closed terminal."""

from __future__ import annotations

import contextlib
from typing import IO, Any

from textual.drivers.linux_driver import LinuxDriver

__all__ = ["SteadyDriver"]


class _Steady:
    """A file that drops output once its reader is gone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


class SteadyDriver(LinuxDriver):
    """Stops on request even when its terminal was closed.

    Otherwise the writing thread would die of the first error, and its callers would block forever.
    A SIGCONT without a preceding stop is ignored: it would save the terminal settings that we have
    changed as the original ones.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = _Steady(self._file)

    def _sigcont_application(self, *_: object) -> None:
        if self._must_signal_resume:
            super()._sigcont_application()
