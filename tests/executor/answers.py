"""Comparison of what a command answers confined and unconfined, on a machine that moves.

Some answers count the machine: its processes, threads, open files, sockets. They change from run
to run, and a confined run adds a few of its own. So the second unconfined run has a crowd beside
it, which adds to all these counts. An answer that stays the same is compared exactly. One that the
crowd changes is compared word by word, and each number may differ by as much as it differs there.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.verdict import Level
from operator_protocols.ports import Job
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Policy
from operator_sre.gate.judge import judge

__all__ = ["BY_DESIGN", "NOT_COMPARED", "Machine", "crowd", "difference"]

TIMEOUT_S = 6.0
ALIKE_MIN = 0.9
NOT_COMPARED = "-"
CANNOT_RUN = 127
# Programs whose answer is the confinement itself.
BY_DESIGN = {"ulimit": "it shows the limits, and those of a confined command are lower"}
# What the crowd adds of each kind.
CROWD = 10
# By how much a count may change between two runs on a busy machine, of which part and at least:
# connections begin and end.
DRIFT, DRIFT_MIN = 0.1, 3
_CROWD = """
import os, socket, sys, threading
number = int(sys.argv[1])
threads = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(number)]
for each in threads: each.start()
files = [open("/proc/self/stat") for _ in range(4 * number)]
pairs = [socket.socketpair() for _ in range(number)]
servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
clients = [socket.create_connection(each.getsockname()) for each in servers]
others = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(number)]
for each in others: each.bind(("127.0.0.1", 0))
children = []
for _ in range(number):
    reader, writer = os.pipe()
    children.append(writer)
    if not os.fork():
        for each in children: os.close(each)
        os.read(reader, 1)
        os._exit(0)
print("ready", flush=True)
sys.stdin.read()
for each in children: os.close(each)
for each in children: os.wait()
"""


@contextmanager
def crowd(number: int = CROWD) -> Iterator[None]:
    """So many more processes, threads, files and sockets of each kind."""
    words = [sys.executable, "-I", "-S", "-c", _CROWD, f"{number}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        process.stdin.close()  # it ends after its children


@dataclass(frozen=True, slots=True)
class Machine:
    """Runs a command in both ways; with `hide`, what that makes of it instead of confined."""

    shell: LocalShell
    policy: Policy
    hide: Callable[[str], str] | None = None

    async def compare(self, command: str) -> str:
        """How the confined answer differs: not at all, or "-" where it cannot be compared."""
        action = replace(Action.shell(command), timeout_s=TIMEOUT_S)
        verdict = judge(action, self.policy, person=True)
        assert verdict.level is Level.SAFE, command
        free = await self.shell.run(action, self._job())
        if free.timed_out or free.exit_code == CANNOT_RUN:
            return NOT_COMPARED
        if self.hide is None:
            held = replace(self._job(), confinement=verdict.confinement)
            confined = await self.shell.run(action, held)
        else:
            hidden = replace(Action.shell(self.hide(command)), timeout_s=TIMEOUT_S)
            confined = await self.shell.run(hidden, self._job())
        with crowd():
            again = await self.shell.run(action, self._job())
        return difference(free, again, confined)

    def _job(self) -> Job:
        return Job(secrets.token_hex(8), TIMEOUT_S)


def difference(free: Result, again: Result, confined: Result) -> str:
    """How an answer differs from two that may differ from each other."""
    if confined.exit_code != free.exit_code and again.exit_code == free.exit_code:
        return f"exit {free.exit_code} became {confined.exit_code}: {confined.stderr[-200:]}"
    if free.stdout == again.stdout:
        if free.stdout == confined.stdout:
            return ""
        return f"{free.stdout[:200]!r} became {confined.stdout[:200]!r}"
    texts = [result.stdout for result in (free, again, confined)]
    shapes = [re.sub(r"\d+", "0", re.sub(r"[ \t]+", " ", text)) for text in texts]
    if shapes[0] == shapes[1]:
        # The same words and as many numbers: each number counts.
        if shapes[2] != shapes[0]:
            return f"{texts[0][:200]!r} became {texts[2][:200]!r}"
        columns = zip(*(map(int, re.findall(r"\d+", text)) for text in texts), strict=True)
        outside = [each for each in columns if not _is_between(*each)]
        return "".join(f"{each[0]} to {each[1]} became {each[2]}; " for each in outside)
    if _likeness(free, confined) < min(ALIKE_MIN, _likeness(free, again)):
        return f"{free.stdout[-200:]!r} became {confined.stdout[-200:]!r}"
    lines = [text.count("\n") for text in texts]
    if not _is_between(*lines):
        return f"{lines[0]} to {lines[1]} lines became {lines[2]}"
    return ""


def _is_between(free: int, again: int, confined: int) -> bool:
    """Whether a number is one that the machine could have shown."""
    margin = max(abs(free - again), DRIFT * max(free, again), DRIFT_MIN)
    return min(free, again) - margin <= confined <= max(free, again) + margin


def _likeness(one: Result, other: Result) -> float:
    """How many of the words of both are words of each; numbers change by themselves."""
    found = [set(re.findall(r"[A-Za-z_./]{3,}", result.stdout)) for result in (one, other)]
    return len(found[0] & found[1]) / max(1, len(found[0] | found[1]))
