"""A command on a real terminal, with Ctrl-C as a person types it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.waiting import eventually

__all__ = ["Terminal"]

CTRL_C = b"\x03"
END_S_MAX = 30.0
# The terminal must be the session's own, or Ctrl-C would reach nobody.
ATTACH = (
    "import fcntl, os, sys, termios;"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """One process on a pseudo terminal of its own, and everything it showed."""

    def __init__(self, words: list[str], *, cwd: Path, environ: Mapping[str, str]) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.before = self.attributes()
        env = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
        self._popen = subprocess.Popen(
            [sys.executable, "-c", ATTACH, *words],
            cwd=cwd,
            env={**env, "TERM": "xterm-256color", **environ},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.shown = ""

    def attributes(self) -> list[Any]:
        """How the terminal is set now."""
        return termios.tcgetattr(self._slave)

    def shows(self, text: str) -> None:
        """Wait until it shows this text."""

        def seen() -> bool:
            assert self._read() or self._popen.poll() is None or text in self.shown, self.shown
            return text in self.shown

        eventually(seen, f"{text!r} on the terminal")

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    def press_ctrl_c(self) -> None:
        """As a person does."""
        os.write(self._master, CTRL_C)

    def signal(self, number: int) -> None:
        """Signal the process by its id."""
        os.kill(self.pid, number)

    def ended(self, *, pressing: bool = False) -> int:
        """Wait for its end, pressing Ctrl-C all the time or not, and return the exit code."""

        def over() -> bool:
            self._read()
            if pressing:
                self.press_ctrl_c()
            return self._popen.poll() is not None

        eventually(over, "its end", within_s=END_S_MAX)
        while self._read():
            pass
        return self._popen.returncode

    def close(self) -> None:
        """End it if it still runs, and give the terminal back."""
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait(END_S_MAX)
        os.close(self._master)
        os.close(self._slave)

    def _read(self) -> bool:
        """Take what has been shown since; False when there was nothing."""
        ready, _, _ = select.select([self._master], [], [], 0)
        part = b""
        if ready:
            with contextlib.suppress(OSError):
                part = os.read(self._master, 65536)
        self.shown += part.decode(errors="replace")
        return bool(part)
