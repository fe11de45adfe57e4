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
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import pytest

__all__ = [
    "COMMAND",
    "MODULE",
    "NODE",
    "ROOT",
    "RUNNER",
    "Done",
    "Forked",
    "Piped",
    "Requests",
    "Warm",
    "fork_runner",
    "serve",
    "shared_warm",
    "start_module",
    "warm_module",
]

OPERATOR = Path(sys.executable).with_name("operator")
COMMAND = "operator_sre.faces.cli.main"
NODE = "operator_ratelimiter.__main__"
RUNNER = "operator_sre.processes.runner.daemon"
MODULE = "tests.e2e.module"
ROOT = Path(__file__).resolve().parents[2]
ANSWER_S_MAX = 60.0
PACKET_BYTES_MAX = 150_000
CHANNELS_MAX = 8
# What programs load when they are asked; the command also what is named after a noun.
LOADED = {
    COMMAND: (
        "cryptography.hazmat.primitives.asymmetric.ed25519",
        "operator_sre.executor.tools.general",
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
    MODULE: (
        "dbos",
        "operator_sre.subjects.ratelimiter",
        "psycopg",
        "re2",
        "tests.app.hub_process",
        "tests.contract.actor",
        "tests.crash.executing",
        "tests.crash.victim",
        "tests.e2e.short_lease_agent",
        "tests.engines.worker",
    ),
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
        try:
            self.pid = self._next(ANSWER_S_MAX)
        except subprocess.TimeoutExpired:
            answers.close()
            raise

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


class Requests:
    """Asks a warm process for forks of its program; any number of processes may do so at once."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests

    @property
    def number(self) -> int:
        """The descriptor to pass on to a process that wants forks as well."""
        return self._requests.fileno()

    def start(
        self,
        *words: str,
        cwd: Path,
        environ: Mapping[str, str],
        out: int,
        err: int,
        input: int | None = None,
        more: Sequence[int] = (),
    ) -> Forked:
        """Start one line whose channels are these files; `more` become 3 and so on."""
        request = json.dumps({"words": words, "cwd": str(cwd), "environ": dict(environ)}).encode()
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, Path(os.devnull).open("rb") as nothing:
            first = nothing.fileno() if input is None else input
            channels = [first, out, err, *more, theirs.fileno()]
            socket.send_fds(self._requests, [request], channels)
        return Forked(mine)


class Warm(Requests):
    """A process from which a program is forked: the command, or the `main` of a module.

    Commands start their runners as users have them, or as forks of another warm process.
    """

    def __init__(self, program: str = COMMAND, *, runner: Requests | None = None) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(mine)
        passed = [] if runner is None else [runner.number]
        with theirs:
            words = [sys.executable, __file__, program, str(theirs.fileno()), *map(str, passed)]
            environ = {**os.environ, "PYTHONPATH": str(ROOT)}
            self._popen = subprocess.Popen(
                words,
                pass_fds=[theirs.fileno(), *passed],
                env=environ if program == MODULE else None,
            )

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

    def close(self) -> None:
        """End the process, whoever else could still ask it."""
        self._requests.shutdown(socket.SHUT_WR)
        self._requests.close()
        with self._popen:
            self._popen.wait(ANSWER_S_MAX)


_shared: dict[str, Warm] = {}


def shared_warm(config: pytest.Config, program: str = COMMAND) -> Warm:
    """The one warm process of a program: of all workers, when it was started before they were."""
    if program not in _shared:
        from tests.leaks import outlives_test

        runner = shared_warm(config, RUNNER) if program in (COMMAND, MODULE) else None
        with outlives_test():
            _shared[program] = Warm(program, runner=runner)
        config.add_cleanup(_shared[program].close)
    return _shared[program]


class Piped:
    """A program that is spoken to by lines, as far as `subprocess.Popen` would tell of it."""

    def __init__(self, requests: Requests, *words: str, err: int) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self.stdin, self.stdout = open(ours_in, "w"), open(ours_out)  # noqa: PTH123, SIM115
        try:
            environ = dict(os.environ)
            self._forked = requests.start(
                *words, cwd=ROOT, environ=environ, input=theirs_in, out=theirs_out, err=err
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.pid = self._forked.pid
        self.poll, self.kill = self._forked.poll, self._forked.kill
        self.terminate = self._forked.terminate

    def wait(self, timeout: float = ANSWER_S_MAX) -> int:
        """Its exit code, when it ends in time."""
        return self._forked.wait(timeout)


def warm_module() -> Requests | None:
    """The process from which modules of the tests are forked, where one is warm for all workers."""
    return _shared.get(MODULE)


def start_module(name: str, *words: str, err: int = 2) -> Piped | subprocess.Popen[str]:
    """A module of the tests as a process of its own, spoken to by lines."""
    requests = warm_module()
    if requests is not None:
        return Piped(requests, name, *words, err=err)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", name, *words],
        cwd=ROOT,
        stdin=pipe,
        stdout=pipe,
        stderr=err,
        text=True,
    )


def fork_runner(runner: Requests, folder: Path) -> None:
    """Start the runner of a folder as `launcher._start` does, from one that is loaded already."""
    from operator_sre.processes.control import base_environment
    from operator_sre.processes.runner import launcher
    from operator_sre.processes.runner.places import LOG

    read, write = os.pipe()
    words = [str(folder), "--idle-s", f"{launcher.IDLE_S:g}", "--ready", "3"]
    environ = base_environment(os.environ)
    try:
        with (folder / LOG).open("ab") as output:
            os.fchmod(output.fileno(), 0o600)
            out = output.fileno()
            forked = runner.start(
                *words, cwd=Path("/"), environ=environ, out=out, err=out, more=[write]
            )
            forked.wait(launcher.LAUNCH_S_MAX)
        os.close(write)
        write = -1
        select.select([read], [], [], launcher.LAUNCH_S_MAX)
    finally:
        for fd in (read, write):
            if fd >= 0:
                os.close(fd)


def _hold_to_schema(words: Sequence[str], out: str) -> None:
    """What is printed for programs is what the schema of its verb says."""
    from tests.contract_messages.holding import held_to_schema

    held_to_schema(words, out)


def serve(program: str, number: int, runner: int | None) -> None:
    """Fork the program for each request, until there are no more."""
    _load(program)
    if runner is not None:
        from operator_sre.processes.runner import launcher

        os.set_inheritable(runner, False)
        launcher._start = partial(fork_runner, Requests(socket.socket(fileno=runner)))
    gc.freeze()
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # or it would not wake anybody
    signal.set_wakeup_fd(wake.fileno())
    running: dict[int, socket.socket] = {}
    with socket.socket(fileno=number) as requests, woken, wake:
        while True:
            ready, _, _ = select.select([requests, woken], [], [])
            if woken in ready:
                woken.recv(PACKET_BYTES_MAX)
                _tell_ended(running)
            if requests not in ready:
                continue
            packet, channels, _, _ = socket.recv_fds(requests, PACKET_BYTES_MAX, CHANNELS_MAX)
            if not packet:
                return
            *streams, answers = channels
            pid = os.fork()
            if pid == 0:
                os.close(answers)
                break
            for stream in streams:
                os.close(stream)
            running[pid] = socket.socket(fileno=answers)
            with suppress(ConnectionError):
                running[pid].send(str(pid).encode())
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for answer in running.values():
            answer.close()
    _become(program, json.loads(packet), streams)


def _tell_ended(running: dict[int, socket.socket]) -> None:
    """Tell the exit code of each program that has ended, without waiting for the others."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            with running.pop(ended[0]) as answers, suppress(ConnectionError):
                answers.send(str(os.waitstatus_to_exitcode(ended[1])).encode())


def _load(program: str) -> None:
    names = [program, *LOADED[program]]
    if program == COMMAND:
        from operator_sre.faces.cli.contents import NOUNS

        names += NOUNS.values()
        names += [name for package in PACKAGES for name in _modules(package)]
    for name in names:
        import_module(name)
    if program == COMMAND:
        _rehearse()
    elif program == NODE:
        # A test may wait longer: a busy machine must not be taken for a store that is lost.
        from operator_ratelimiter import settings

        settings._STORE_TIMEOUT_S_MAX = ANSWER_S_MAX


def _rehearse() -> None:
    """Fill the caches that a command fills for itself, one after another: they hold no state."""
    import typer.main

    from operator_protocols.domain.action import Action
    from operator_sre.faces.cli.contents import NOUNS
    from operator_sre.faces.cli.main import command_line
    from operator_sre.gate.judge import judge, warm
    from operator_sre.gate.policy.policy import Policy
    from operator_sre.ledger.redaction import Redactor
    from operator_sre.plugins import plugin_names

    known: Any = typer.main
    known.get_params_from_function = cache(known.get_params_from_function)
    typer.main.get_command(command_line(list(NOUNS)))
    warm(Policy())
    judge(Action.shell("cat /etc/hosts /home/me/notes"), Policy())
    Redactor(bytes(32)).text("password=x, Bearer y: https://me:z@host -----BEGIN KEY-----")
    plugin_names()


def _modules(package: str) -> list[str]:
    """All that lies in a package: a verb loads only what it uses, one after another."""
    found = walk_packages(import_module(package).__path__, f"{package}.")
    return [package, *(module.name for module in found if "__main__" not in module.name)]


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
    # Made anew: they remember whether they were a file or a terminal when Python started.
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        lines = 1 if os.isatty(number) or number == 2 else -1
        made = open(number, "w", lines, "utf-8", errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, made)
    try:
        sys.exit(import_module(program).main(request["words"]))
    except SystemExit as end:
        # Python's own end, but for taking apart what was loaded, which nobody would notice.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
