"""A real program in a process of its own, forked from one that has loaded everything already.

All that is saved is the start of Python. Run as a script it serves: each request is one packet
with the channels of the program, its answers are its pid and, at its end, its exit code.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import pytest

__all__ = [
    "COMMAND",
    "NODE",
    "RUNNER",
    "Done",
    "Forked",
    "Warm",
    "fork_runner",
    "serve",
    "shared_warm",
]

OPERATOR = Path(sys.executable).with_name("operator")
COMMAND = "operator_sre.faces.cli.main"
NODE = "operator_ratelimiter.__main__"
RUNNER = "operator_sre.processes.runner.daemon"
ANSWER_S_MAX = 60.0
PACKET_BYTES_MAX = 150_000
CHANNELS_MAX = 8
# What programs load when they are asked; the command also what is named after a noun.
LOADED = {
    COMMAND: (
        "cryptography.hazmat.primitives.asymmetric.ed25519",
        "operator_sre.executor.tools.standard",
        "operator_sre.faces.cli.logs",
        "operator_sre.subjects.ratelimiter",
        "re2",
    ),
    NODE: (
        "operator_ratelimiter.app",
        "uvicorn.lifespan.on",
        "uvicorn.loops.auto",
        "uvicorn.protocols.http.auto",
        "uvicorn.protocols.websockets.auto",
    ),
    RUNNER: (),
}
PACKAGES = (
    "operator_protocols",
    *(f"operator_sre.{name}" for name in ("agent", "app", "config", "contract", "engine")),
    *(f"operator_sre.{name}" for name in ("executor", "gate", "ledger", "monitor", "store")),
    *(f"operator_sre.{name}" for name in ("tickets", "verify")),
)


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended: its exit code, what it said, and to which channel."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema_version"] == "1.0.0"
        return document


class Forked:
    """A program that was started, as far as `subprocess.Popen` would tell of it."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self._code: int | None = None
        self.pid = self._next(ANSWER_S_MAX)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self._code is None and select.select([self._answers], [], [], 0)[0]:
            self.wait(0)
        return self._code

    def wait(self, timeout: float) -> int:
        """Its exit code, when it ends in time."""
        if self._code is None:
            self._code = self._next(timeout)
            self._answers.close()
        return self._code

    def send_signal(self, number: int) -> None:
        """Signal it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _next(self, within_s: float) -> int:
        ready, _, _ = select.select([self._answers], [], [], within_s)
        if not ready:
            raise subprocess.TimeoutExpired("operator", within_s)
        return int(self._answers.recv(PACKET_BYTES_MAX))


class Warm:
    """A process from which a program is forked: the command, or the `main` of a module."""

    def __init__(self, program: str = COMMAND) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, __file__, str(theirs.fileno()), program]
            self._popen = subprocess.Popen(words, pass_fds=[theirs.fileno()])

    def run(self, *words: str, cwd: Path, environ: Mapping[str, str]) -> Done:
        """Run one line to its end, with this environment and nothing else of ours."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            forked = self.start(
                *words, cwd=cwd, environ=environ, out=out.fileno(), err=err.fileno()
            )
            try:
                code = forked.wait(ANSWER_S_MAX)
            finally:
                forked.kill()
            out.seek(0)
            err.seek(0)
            done = Done(code, out.read().decode(), err.read().decode())
        assert "Traceback" not in done.out + done.err, done.err
        _hold_to_schema(words, done.out)
        return done

    def start(
        self,
        *words: str,
        cwd: Path,
        environ: Mapping[str, str],
        out: int,
        err: int,
        more: Sequence[int] = (),
    ) -> Forked:
        """Start one line whose channels are these files; `more` become 3 and so on."""
        request = json.dumps({"words": words, "cwd": str(cwd), "environ": dict(environ)}).encode()
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, Path(os.devnull).open("rb") as nothing:
            channels = [nothing.fileno(), out, err, *more, theirs.fileno()]
            socket.send_fds(self._requests, [request], channels)
        return Forked(mine)

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        with self._popen:
            self._popen.wait(ANSWER_S_MAX)


_shared: dict[str, Warm] = {}


def shared_warm(config: pytest.Config, program: str = COMMAND) -> Warm:
    """The one warm process of a program: of all workers, when it was started before they were."""
    if program not in _shared:
        from tests.leaks import outlives_test

        with outlives_test():
            _shared[program] = Warm(program)
        config.add_cleanup(_shared[program].close)
    return _shared[program]


def fork_runner(runner: Warm, folder: Path) -> None:
    """Start the runner of a folder as `launching._start` does, from one that is loaded already."""
    from operator_sre.processes.control import base_environment
    from operator_sre.processes.runner import launching
    from operator_sre.processes.runner.places import LOG

    read, write = os.pipe()
    words = [str(folder), "--idle-s", f"{launching.IDLE_S:g}", "--ready", "3"]
    environ = base_environment(os.environ)
    try:
        with (folder / LOG).open("ab") as output:
            os.fchmod(output.fileno(), 0o600)
            out = output.fileno()
            forked = runner.start(
                *words, cwd=Path("/"), environ=environ, out=out, err=out, more=[write]
            )
            forked.wait(launching.LAUNCH_S_MAX)
        os.close(write)
        write = -1
        select.select([read], [], [], launching.LAUNCH_S_MAX)
    finally:
        for fd in (read, write):
            if fd >= 0:
                os.close(fd)


def _hold_to_schema(words: Sequence[str], out: str) -> None:
    """What is printed for programs is what the schema of its verb says."""
    from tests.contract_messages.holding import held_to_schema

    held_to_schema(words, out)


def serve(number: int, program: str) -> None:
    """Fork the program for each request, until there are no more."""
    _load(program)
    gc.freeze()
    with socket.socket(fileno=number) as requests:
        while True:
            packet, channels, _, _ = socket.recv_fds(requests, PACKET_BYTES_MAX, CHANNELS_MAX)
            if not packet:
                return
            if os.fork() == 0:
                requests.close()
                break
            for channel in channels:
                os.close(channel)
            _reap()
    _mind(program, packet, channels)


def _load(program: str) -> None:
    names = [program, *LOADED[program]]
    if program == COMMAND:
        from operator_sre.faces.cli.main import NOUNS

        names += NOUNS.values()
        names += [name for package in PACKAGES for name in _modules(package)]
    for name in names:
        import_module(name)


def _modules(package: str) -> list[str]:
    """All that lies in a package: a verb loads only what it uses, one after another."""
    found = walk_packages(import_module(package).__path__, f"{package}.")
    return [package, *(module.name for module in found if "__main__" not in module.name)]


def _reap() -> None:
    """Let those go that have ended, without waiting for the others."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _mind(program: str, packet: bytes, channels: list[int]) -> None:
    """Fork the program itself, and tell its pid and its exit code."""
    *streams, answers = channels
    pid = os.fork()
    if pid == 0:
        os.close(answers)
        _become(program, json.loads(packet), streams)
    with socket.socket(fileno=answers) as told, suppress(BrokenPipeError):
        told.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        told.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(program: str, request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the program: with its channels, its folder, its environment and its words."""
    # Out of the way of each other first: one may have the number that another is to get.
    apart = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, 100) for stream in streams]
    for stream in streams:
        os.close(stream)
    for number, stream in enumerate(apart):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = [str(OPERATOR), *request["words"]]
    try:
        sys.exit(import_module(program).main(request["words"]))
    except SystemExit as end:
        # Python's own end, but for taking apart what was loaded, which nobody would notice.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
