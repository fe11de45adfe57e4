"""A process that fills the index of words, for as long as whoever started it lives."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["IndexProcess"]

END_S_MAX = 2.0
# What an interpreter needs to find itself; no secret of the operator is handed on.
_HANDED_ON = ("PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "LC_ALL", "TMPDIR")


class IndexProcess:
    """Fills the index of one SQLite file whenever it is told to, and ends with its pipe.

    Nobody has to end it: when the process that started it is gone, however that went, the pipe is
    closed, and it goes after the step that it is in.
    """

    def __init__(self, path: Path) -> None:
        # -P, because whatever lies in the current directory is not to be imported.
        argv = [sys.executable, "-P", "-m", "operator_sre.store.indexing_apart", str(path)]
        self._process = subprocess.Popen(
            argv,
            cwd="/",
            env={name: os.environ[name] for name in _HANDED_ON if name in os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        os.set_blocking(self._pipe.fileno(), False)  # one that is stopped must not stop us

    @property
    def id(self) -> int:
        """The number of the process."""
        return self._process.pid

    def tell(self) -> bool:
        """Something was written; False when the process is gone."""
        if self._process.poll() is not None:
            return False
        try:
            self._pipe.write(b".")
        except BlockingIOError:
            pass  # it has not read what it was told before, and will see this as well
        except OSError:
            return False
        return True

    def close(self) -> bool:
        """Let it end its step and go, or kill it if it does not; False when it was gone before."""
        was_there = self._process.poll() is None
        with contextlib.suppress(OSError):
            self._pipe.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return was_there
