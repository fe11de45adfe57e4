"""Comparison of what a command answers confined and unconfined, on a machine that moves.

Some answers count the machine: its processes, threads, open files, sockets. They change from run
to run, and a confined run adds a few of its own. So the second unconfined run has a crowd beside
it, which adds to all these counts. An answer that stays the same is compared exactly. One that the
crowd changes is compared word by word, and each number may differ by as much as it differs there.
Where one differs more, both ways are run in turns, and the middle of the confined numbers has to
lie among the others: a machine moves up and down, and what is hidden is missing every time.
"""

from __future__ import annotations

import re
import secrets
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.ports import Job
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Policy
from operator_sre.gate.judge import judge

__all__ = ["BY_DESIGN", "NOT_COMPARED", "Machine", "crowd", "difference"]

# What takes longer has no end. A confined command that has one may need longer on a busy machine.
TIMEOUT_S, CONFINED_S = 6.0, 60.0
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
TURNS = 4
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
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
        confined = await self._confine(action, verdict)
        with crowd():
            again = await self.shell.run(action, self._job())
        found = difference([free, again], [confined])
        if not found or free.stdout == again.stdout:
            return found
        frees, confineds = [free, again], [confined]
        for _ in range(TURNS):
            frees.append(await self.shell.run(action, self._job()))
            confineds.append(await self._confine(action, verdict))
        return difference(frees, confineds)

    async def _confine(self, action: Action, verdict: Verdict) -> Result:
        if self.hide is None:
            held = Job(secrets.token_hex(8), CONFINED_S, confinement=verdict.confinement)
            return await self.shell.run(replace(action, timeout_s=CONFINED_S), held)
        hidden = replace(Action.shell(self.hide(action.command)), timeout_s=action.timeout_s)
        return await self.shell.run(hidden, self._job())

    def _job(self) -> Job:
        return Job(secrets.token_hex(8), TIMEOUT_S)


def difference(frees: Sequence[Result], confineds: Sequence[Result]) -> str:
    """How confined answers differ from the others, which may differ among themselves."""
    free, confined = frees[0], confineds[-1]
    is_steady = all(each.exit_code == free.exit_code for each in frees)
    if is_steady and all(each.exit_code != free.exit_code for each in confineds):
        return f"exit {free.exit_code} became {confined.exit_code}: {confined.stderr[-200:]}"
    known = {each.stdout for each in frees}
    became = f"{free.stdout[:200]!r} became {confined.stdout[:200]!r}"
    if len(known) == 1:
        return "" if confined.stdout in known else became
    shapes = {_NUMBER.sub("0", re.sub(r"[ \t]+", " ", text)) for text in known}
    if len(shapes) == 1:
        # The same words and as many numbers: each number counts.
        places = _numbers(free).keys()
        alike = [numbers for each in confineds if (numbers := _numbers(each)).keys() == places]
        if not alike:
            return became
        for place, number in _numbers(free).items():
            found = [_numbers(each)[place] for each in frees]
            if not _is_among(found, [numbers[place] for numbers in alike]):
                return f"{number} became {alike[-1][place]} in {confined.stdout[:200]!r}"
        return ""
    least = min(_likeness(free, each) for each in frees)
    if max(_likeness(free, each) for each in confineds) < min(ALIKE_MIN, least):
        return f"{free.stdout[-200:]!r} became {confined.stdout[-200:]!r}"
    lines = [[each.stdout.count("\n") for each in several] for several in (frees, confineds)]
    return "" if _is_among(*lines) else f"{lines[0]} lines became {lines[1]}"


def _numbers(result: Result) -> dict[tuple[int, str], float]:
    """Each number, by how many there are before it and the words between it and the last one."""
    words = _NUMBER.split(re.sub(r"[ \t]+", " ", result.stdout))
    found = {(at, words[at - 1]): float(words[at]) for at in range(1, len(words), 2)}
    return {**found, (len(words), words[-1]): 0}


def _is_among(found: Sequence[float], numbers: Sequence[float]) -> bool:
    """Whether the middle of some numbers is one that the machine could have shown."""
    margin = max(max(found) - min(found), DRIFT * max(found), DRIFT_MIN)
    return min(found) - margin <= statistics.median(numbers) <= max(found) + margin


def _likeness(one: Result, other: Result) -> float:
    """How many of the words of both are words of each; numbers change by themselves."""
    found = [set(re.findall(r"[A-Za-z_./]{3,}", result.stdout)) for result in (one, other)]
    return len(found[0] & found[1]) / max(1, len(found[0] | found[1]))
