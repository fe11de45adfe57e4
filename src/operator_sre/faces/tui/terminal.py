"""The way to the terminal, made so that the end of the terminal is never ours to wait for."""

from __future__ import annotations

import contextlib
from typing import IO, Any

from textual.drivers.linux_driver import LinuxDriver

__all__ = ["SteadyDriver"]


class _Steady:
    """A file whose reader may go away: what nobody can read is dropped."""

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
    """Ends when it is told to, also when its terminal was closed under it.

    The writing thread would otherwise die of the first error, and whoever writes to it would wait
    for ever. To be continued without having been stopped is no beginning: the terminal that is
    remembered then would be the one that we have changed.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = _Steady(self._file)

    def _sigcont_application(self, *_: object) -> None:
        if self._must_signal_resume:
            super()._sigcont_application()
