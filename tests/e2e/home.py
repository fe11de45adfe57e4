"""An operator home for a test: the real command on it, and everything ended by its id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from http.client import HTTPConnection
from io import BufferedWriter
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen, TimeoutExpired
from typing import Any

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.clock import SystemClock
from operator_sre.ledger import KeyFile
from operator_sre.store import Store, open_store
from tests.contract_messages.holding import held_to_schema
from tests.e2e.census import processes_of
from tests.e2e.waiting import eventually
from tests.e2e.warm import OPERATOR, ROOT, Done, Forked, Warm, warm_module
from tests.processes.runners import end_runner

__all__ = ["OPERATOR", "Home", "Json", "Running", "answers", "run_operator"]

COMMAND_S_MAX = 60.0
END_S_MAX = 20.0
# Quick, so that a test is; every figure is one that a user may set.
PACE = {"OPERATOR_STABLE_S": "1", "OPERATOR_TIMEOUT_S": "2", "OPERATOR_INTERVAL_S": "0.4"}

Json = dict[str, Any]


def run_operator(
    *words: str, cwd: Path, environ: Mapping[str, str] | None = None, unset: str = ""
) -> Done:
    """Run the real command to its end."""
    env = {**os.environ, **(environ or {})}
    env.pop(unset, None)
    done = subprocess.run(
        [OPERATOR, *words],
        cwd=cwd,
        env=env,
        stdin=DEVNULL,
        capture_output=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert b"Traceback" not in done.stdout + done.stderr, done.stderr.decode()
    held_to_schema(words, done.stdout.decode(errors="replace"))
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


class Running:
    """A process that goes on until it is ended; its log lines are kept in a file."""

    def __init__(self, popen: Popen[bytes] | Forked, log: Path, words: Sequence[str]) -> None:
        self._popen = popen
        self._log = log
        self._words = words
        self.pid = popen.pid

    @property
    def said(self) -> str:
        """All that it has said so far."""
        return self._log.read_text(errors="replace")

    @property
    def runs(self) -> bool:
        """It has not ended."""
        return self._popen.poll() is None

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal it, wait for its end and return its exit code."""
        if self.runs:
            os.kill(self.pid, number)
        try:
            code = self._popen.wait(END_S_MAX)
        except TimeoutExpired:
            self._popen.kill()
            self._popen.wait(END_S_MAX)
            raise AssertionError(f"signal {number} did not end it: {self.said}") from None
        ours = [line for line in self.said.splitlines() if '"schema_version"' in line]
        held_to_schema(self._words, "\n".join(ours))
        return code


class Home:
    """One operator home, the commands of a person on it, and the processes that work there."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self._warm = warm
        self.cwd = folder
        self.path = folder / "home"
        self._running: list[Running] = []

    def run(self, *words: str, **environ: str) -> Done:
        """Run a command on this home to its end, in a process that is warm."""
        line = (*words, "--home", str(self.path))
        return self._warm.run(*line, cwd=self.cwd, environ={**os.environ, **PACE, **environ})

    def ask(self, *words: str) -> Json:
        """What a command answers with --json, when it succeeds."""
        done = self.run(*words, "--json")
        assert done.code == 0, done
        return done.json

    def start(self, *words: str, **environ: str) -> Running:
        """Start a command that goes on, as a person starts it."""
        return self.start_process(self.line(*words), **environ)

    def line(self, *words: str) -> list[str]:
        """A command on this home as it is started."""
        return [str(OPERATOR), *words, "--home", str(self.path)]

    def start_process(self, words: list[str], **environ: str) -> Running:
        """Start any process that ends with this home."""
        env = {**os.environ, **PACE, **environ}
        with self._new_log() as log:
            popen = Popen(words, cwd=self.cwd, env=env, stdin=DEVNULL, stdout=log, stderr=STDOUT)
        return self._kept(Running(popen, Path(log.name), words[1:]))

    def fork(self, *words: str, **environ: str) -> Running:
        """Start a command that goes on, where its start is not what is tested."""
        env = {**os.environ, **PACE, **environ}
        with self._new_log() as log:
            to, line = log.fileno(), self.line(*words)[1:]
            forked = self._warm.start(*line, cwd=self.cwd, environ=env, out=to, err=to)
        return self._kept(Running(forked, Path(log.name), line))

    def fork_on(self, channel: int, *words: str) -> Forked:
        """Start a command whose input and outputs are this file, like a terminal."""
        env = {**os.environ, "TERM": "xterm"}
        line = self.line(*words)[1:]
        return self._warm.start(
            *line, cwd=self.cwd, environ=env, input=channel, out=channel, err=channel
        )

    def fork_module(self, name: str, *words: str) -> Running:
        """Start a module of the tests that ends with this home."""
        requests = warm_module()
        if requests is None:
            script = ROOT / f"{name.replace('.', '/')}.py"
            return self.start_process([sys.executable, str(script), *words])
        with self._new_log() as log:
            to, env = log.fileno(), {**os.environ, **PACE}
            forked = requests.start(name, *words, cwd=self.cwd, environ=env, out=to, err=to)
        return self._kept(Running(forked, Path(log.name), words))

    def _new_log(self) -> BufferedWriter:
        return (self.cwd / f"process-{len(self._running)}.log").open("wb")

    def _kept(self, running: Running) -> Running:
        self._running.append(running)
        return running

    def up(self, mode: str) -> Running:
        """Monitor and agent of the rig; returns when the monitor has looked once."""
        running = self.fork("up", "--subject", "ratelimiter", "--mode", mode)
        self.looked(1)
        return running

    def looked(self, times: int, *, subject: str = "ratelimiter") -> None:
        """Wait until the monitor has looked this many times from now on."""
        newest = self.store.observations.newest(subject, limit=1)
        since = newest[0].at if newest else datetime.min.replace(tzinfo=UTC)

        def looks() -> int:
            seen = self.store.observations.newest(subject, limit=times)
            return sum(observation.at > since for observation in seen)

        eventually(lambda: looks() >= times, f"{times} looks at {subject}")

    def rig(self) -> dict[str, Json]:
        """The targets of the rig by name, as they are now."""
        view = self.ask("lab", "status", "ratelimiter")["rig"]
        return {target["name"]: target for target in view["targets"]}

    @cached_property
    def store(self) -> Store:
        """The store of this home, for waiting: asking the command would cost more than waiting."""
        key = KeyFile(self.path / "ledger.key")  # else what it decides would not count
        return open_store(self.path / "operator.db", clock=SystemClock(), signer=key)

    def tickets(self, *states: TicketState) -> list[Ticket]:
        """The tickets in these states, in the order in which they were opened."""
        return sorted(self.store.tickets.find(states=states), key=lambda ticket: ticket.id)

    def entries(self, *kinds: Kind, ticket: int | None = None) -> list[Entry]:
        """Entries of these kinds, in order."""
        found = self.store.entries.after(0, limit=10_000, ticket=ticket)
        return [entry for entry in found if entry.kind in kinds]

    def new_ticket(self, before: int, *states: TicketState) -> Ticket:
        """The first ticket behind number `before`, as soon as it is in one of these states."""

        def ended() -> Ticket | None:
            return next((one for one in self.tickets(*states) if one.id > before), None)

        return eventually(ended, f"a ticket after {before} that is {' or '.join(states)}")

    def close(self) -> None:
        """End all that was started here, and see that nothing is left."""
        for running in self._running:
            running.end(signal.SIGKILL)
        if (self.path / "lab").exists():
            self.run("lab", "down", "ratelimiter")
        if "store" in self.__dict__:
            self.store.close()
        end_runner(self.path / "runner")
        left = processes_of(self.path)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert left == {}


def answers(target: Json) -> bool:
    """A node says that it is up."""
    connection = HTTPConnection(target["host"], target["port"], timeout=20)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
