"""What it costs to execute: beside a bare subprocess, with much output, and at the time-out.

    .venv/bin/python benchmarks/execute.py [--rounds 400] [--only-true]

Promises: intent, outcome and spool add under 2 ms (half) and 5 ms (99 of 100) to a bare asyncio
subprocess with pipes, however much memory the operator has; 1 GB of output adds under 64 MB of
memory, at a third of the speed of `cat > file` or more; a time-out comes within 0.3 s of limit and
grace.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.ports import Job
from operator_sre.clock import SystemClock
from operator_sre.executor import Executor
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Program, Programs
from operator_sre.executor.transports.local import ENVIRONMENT, LocalShell
from operator_sre.gate import Gate, Policy
from operator_sre.store import Store, open_store

GIGABYTE = 1_000_000_000
BALLAST_BYTES = 500_000_000
LIMIT_S, GRACE_S = 0.5, 0.5
_FLEE = "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
STUBBORN = {
    "ignores TERM": "trap '' TERM; while :; do sleep 1; done",
    "forks twice": f'trap "" TERM; {sys.executable} -c "{_FLEE}time.sleep(60)"; sleep 60',
    "another session": "trap '' TERM; setsid sleep 60 & sleep 60; sleep 60",
    "500 children": "trap '' TERM; for i in $(seq 500); do sleep 60 & done; wait; sleep 60",
    "stopped": "trap '' TERM; kill -STOP $$; sleep 60",
}


@dataclass(frozen=True, slots=True)
class Bench:
    """An executor as the product wires it."""

    store: Store
    gate: Gate
    executor: Executor
    programs: Programs

    async def permits(self, count: int) -> list[Permit]:
        """Enough of them for a round; giving them is not what is measured."""
        found = []
        for _ in range(count):
            verdict = self.gate.judge(Action.program(["/bin/true"]))
            permit = await self.gate.permit(verdict, None, subject="machine")
            assert isinstance(permit, Permit)
            found.append(permit)
        return found


def bench_in(folder: Path) -> Bench:
    """All of it on a store of its own."""
    clock = SystemClock()
    store = open_store(folder / "operator.db", clock=clock)
    programs = Programs(Spool(folder / "spool"))
    policy = Policy(mode=Mode.EXECUTE, auto=frozenset(Risk))
    gate = Gate(lambda: policy, store.journal, store.approvals, clock, secrets.token_urlsafe)
    return Bench(store, gate, Executor(store.intents, LocalShell(programs), ()), programs)


async def bare(*argv: str) -> None:
    """The same without us."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=ENVIRONMENT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await process.communicate()


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds."""
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1000


async def overhead(bench: Bench, folder: Path, rounds: int) -> None:
    """Ours and the bare one take turns."""
    runner = _runners(folder)
    for title, size in (("", 0), (" in a parent of 500 MB", BALLAST_BYTES)):
        ballast = bytearray(os.urandom(1024) * (size // 1024))
        permits = await bench.permits(rounds)
        ours, theirs = [], []
        operator_s, runner_s = 0.0, _processor_s(runner)
        for permit in permits:
            theirs.append(await timed(lambda: bare("/bin/true")))
            before_s = time.process_time()
            ours.append(await timed(lambda: bench.executor.execute(permit)))  # noqa: B023
            operator_s += time.process_time() - before_s
        runner_s = _processor_s(runner) - runner_s
        line = f"true{title}: "
        for name, at in (("half", 0.5), ("99 of 100", 0.99)):
            mine, other = quantile(ours, at), quantile(theirs, at)
            line += f"{name} {mine:.2f} ms beside {other:.2f} ms bare, adds {mine - other:.2f} ms; "
        line += f"processor time: operator {operator_s / rounds * 1000:.2f} ms, "
        say(f"{line}runner and command {runner_s / rounds * 1000:.2f} ms")
        del ballast


def quantile(values: list[float], at: float) -> float:
    """The value that so many of them are below."""
    return sorted(values)[min(len(values) - 1, int(len(values) * at))]


async def much_output(bench: Bench, folder: Path) -> None:
    """A gigabyte, three times; the medians."""
    whole, memory, cat = [], [], []
    for _ in range(3):
        argv = ("/bin/sh", "-c", f"head -c {GIGABYTE} /dev/zero | cat > {folder}/cat")
        cat.append(await timed(lambda: bare(*argv)))  # noqa: B023
        (folder / "cat").unlink()
        with Peak(folder) as peak:
            program = Program(("/bin/sh", "-c", f"head -c {GIGABYTE} /dev/zero | cat"), ENVIRONMENT)
            job = Job(secrets.token_hex(8), 300.0)
            whole.append(await timed(lambda: bench.programs.run(program, job)))  # noqa: B023
        memory.append(peak.added_bytes)
    ours, theirs = statistics.median(whole), statistics.median(cat)
    say(
        f"1 GB of output: {ours:.0f} ms beside {theirs:.0f} ms for cat > file "
        f"({theirs / ours:.2f} of its speed), adds {max(memory) / 1e6:.0f} MB of memory"
    )


class Peak:
    """The most memory that operator and runner have together, beyond what they had before."""

    def __init__(self, folder: Path) -> None:
        self._pids = [os.getpid(), *_runners(folder)]
        self.added_bytes = 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._before = self._now()
        self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.added_bytes = max(self.added_bytes, self._now() - self._before)

    def _now(self) -> int:
        page = os.sysconf("SC_PAGE_SIZE")
        files = (Path(f"/proc/{pid}/statm") for pid in self._pids)
        return sum(int(file.read_text().split()[1]) * page for file in files)


def _runners(folder: Path) -> list[int]:
    """The process of the runner that works in this folder."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if os.fsencode(folder / "runner") in _words(pid)]


def _processor_s(pids: list[int]) -> float:
    """The processor time of these processes and their children that have ended."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def time_outs(bench: Bench) -> None:
    """How much later than limit and grace the answer comes, and nothing is left then."""
    for name, command in STUBBORN.items():
        program = Program(("/bin/bash", "-c", command), ENVIRONMENT, grace_s=GRACE_S)
        late = []
        for _ in range(3):
            job = Job(secrets.token_hex(8), LIMIT_S)
            took_ms = await timed(lambda: bench.programs.run(program, job))  # noqa: B023
            late.append(took_ms / 1000 - LIMIT_S - GRACE_S)
        say(f"time-out, {name}: at most {max(late):+.2f} s of limit and grace")


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def measure(rounds: int, *, only_true: bool) -> None:
    """All of it, or only what `true` costs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = bench_in(folder)
        for permit in await bench.permits(20):  # everything is loaded, and the runner is there
            await bench.executor.execute(permit)
        await overhead(bench, folder, rounds)
        if not only_true:
            await much_output(bench, folder)
            await time_outs(bench)
        bench.store.close()


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--only-true", action="store_true")
    options = parser.parse_args()
    asyncio.run(measure(options.rounds, only_true=options.only_true))


if __name__ == "__main__":
    main()
