"""How soon everything has ended when the kill switch is turned on.

    .venv/bin/python benchmarks/kill_switch.py [--rounds 5] [--commands 10]

Several commands that ignore TERM run in one process of a home, and another process of it turns the
switch on, as `operator kill-switch on` does. Promise: within 2 s none of their processes is left,
also when the process that runs them is stuck and cannot help.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Mode, Risk
from operator_sre.app.restraints import switch_on
from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config
from operator_sre.controls import MACHINE
from operator_sre.gate import Gate, Policy
from operator_sre.processes.identity import process_of

GOAL_S = 2.0
STARTED_S_MAX = 60.0
GONE_S_MAX = 30.0
LOOK_S = 0.01
_OWN = "echo $$ >> {pids}; sleep 300 & echo $! >> {pids}; "
CASES = {
    "obey TERM": _OWN + "wait",
    "ignore TERM": "trap '' TERM; " + _OWN + "while :; do wait; done",
    "ignore TERM, in another session": "trap '' TERM; setsid sleep 300 & " + _OWN + "sleep 300",
}
STUCK = "ignore TERM, and what runs them is stuck"


def main() -> None:
    """Measure and tell; exit 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commands", type=int, default=10)
    parser.add_argument("--busy", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.busy:
        home, command = given.busy
        with _opened(Path(home)) as app:
            asyncio.run(_busy(app, command, given.commands))
        return
    say(f"{'commands that':44}{'half':>8}{'worst':>8}  goal")
    worst = 0.0
    for name in (*CASES, STUCK):
        took = [once(name, given.commands) for _ in range(given.rounds)]
        worst = max(worst, *took)
        say(f"{name:44}{statistics.median(took):6.2f} s{max(took):6.2f} s  {GOAL_S:g} s")
    sys.exit(worst > GOAL_S)


def once(name: str, commands: int) -> float:
    """Seconds from turning the switch on until nothing of all the commands is there any more."""
    with tempfile.TemporaryDirectory() as folder:
        home, pids = Path(folder) / "home", Path(folder) / "pids"
        command = CASES["ignore TERM" if name == STUCK else name].format(pids=pids)
        with _opened(home) as app:
            words = [sys.executable, __file__, "--commands", str(commands), "--busy", str(home)]
            busy = subprocess.Popen([*words, command], stdout=subprocess.DEVNULL)
            started = _started(pids, 2 * commands)
            if name == STUCK:
                busy.send_signal(signal.SIGSTOP)
            try:
                return asyncio.run(_measured(app, started))
            finally:
                _end(busy, started)


async def _measured(app: App, pids: Sequence[int]) -> float:
    begun = time.perf_counter()
    switching = asyncio.ensure_future(switch_on(app, reason="a measurement"))
    while any(map(process_of, pids)):
        if time.perf_counter() - begun > GONE_S_MAX:
            raise SystemExit(f"some of {pids} are still there after {GONE_S_MAX:g} s")
        await asyncio.sleep(LOOK_S)
    took_s = time.perf_counter() - begun
    await switching
    return took_s


async def _busy(app: App, command: str, count: int) -> None:
    """Run the command so many times at once, through the executor of the home."""
    policy, store = Policy(mode=Mode.EXECUTE, auto=frozenset(Risk)), app.store
    gate = Gate(lambda: policy, store.journal, store.approvals, app.clock, app.new_id)
    executor = app.controls(MACHINE).executor

    async def one(subject: str) -> None:
        permit = await gate.permit(gate.judge(Action.shell(command)), None, subject=subject)
        if not isinstance(permit, Permit):
            raise SystemExit(f"it is not permitted: {permit.stderr}")
        await executor.execute(permit)

    # Each about a subject of its own, of which no more than one thing is changed at a time.
    await asyncio.gather(*(one(f"subject-{number}") for number in range(count)))


def _opened(home: Path) -> AbstractContextManager[App]:
    return open_app(load_config(flags={"home": str(home)}, environ={}, cwd=home.parent))


def _started(file: Path, count: int) -> list[int]:
    deadline = time.monotonic() + STARTED_S_MAX
    while time.monotonic() < deadline:
        words = file.read_text().split() if file.exists() else []
        if len(words) == count:
            return [int(word) for word in words]
        time.sleep(LOOK_S)
    raise SystemExit(f"only {len(words)} of {count} processes were started")


def _end(busy: subprocess.Popen[bytes], pids: Sequence[int]) -> None:
    busy.send_signal(signal.SIGCONT)
    try:
        busy.wait(GONE_S_MAX)
    except subprocess.TimeoutExpired:
        busy.kill()
        busy.wait()
    for pid in pids:
        if process_of(pid) is not None:
            os.kill(pid, signal.SIGKILL)


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
