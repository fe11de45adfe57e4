"""A worker as a process of its own: `python -m tests.engines.worker FOLDER ENGINE [MODE]`.

It reads the address of the store from its input, says when it works, and stops on SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from operator_protocols.domain.verdict import Mode
from tests.e2e.warm import Piped, start_module
from tests.engines.floor import Floor

__all__ = ["LEASE_S", "WorkerProcess", "main"]

ROOT = Path(__file__).resolve().parents[2]
LEASE_S = 2.0
PARKED_S = 3600.0


class WorkerProcess:
    """One worker, seen from the test; `code` is a folder with another release of ours."""

    def __init__(
        self,
        where: str,
        folder: Path,
        engine: str,
        mode: Mode = Mode.EXECUTE,
        code: Path | None = None,
    ) -> None:
        self._log = (folder / "workers.log").open("ab")
        words = ("tests.engines.worker", str(folder), engine, mode)
        self._process: Piped | subprocess.Popen[str]
        if code is None:
            self._process = start_module(*words, err=self._log.fileno())
        else:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(code)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{where}\n")
        self._process.stdin.close()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def ready(self) -> None:
        """Wait until it works."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def pause(self) -> None:
        """Stop it where it is."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run on as if nothing had been."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait for its end."""
        if self.runs:
            os.kill(self.pid, number)
        if number != signal.SIGKILL:
            self.go_on_if_paused()
        try:
            return self._process.wait(60.0)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._log.close()

    def go_on_if_paused(self) -> None:
        """One that is paused cannot end itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)


async def _work(floor: Floor, engine: str) -> None:
    working = asyncio.ensure_future(floor.engine(engine, lease_s=LEASE_S).work())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with contextlib.suppress(asyncio.CancelledError):
        await working


def main(words: Sequence[str]) -> None:
    """Work until stopped."""
    folder, engine, mode = words
    where = sys.stdin.readline().strip()
    logging.basicConfig(format=f"%(asctime)s {os.getpid()} %(message)s", level=logging.INFO)
    floor = Floor(where, Path(folder), mode=Mode(mode), parked_s=PARKED_S)
    asyncio.run(_work(floor, engine))
    floor.close()


if __name__ == "__main__":
    main(sys.argv[1:])
