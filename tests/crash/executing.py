"""An operator that is killed with no warning while it executes, and the one that comes after it.

`python -m tests.crash.executing FOLDER SEED ROUNDS STEP...` prints a line of JSON for each round.
Each round is a process of its own, forked from one that has loaded everything, so that hundreds
take minutes. A step is a label of STEPS, `random` for any moment, `both` for the runner as well, or
`script` for any moment of a script in its box.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Permit
from operator_sre.app.audit import verify_ledger
from operator_sre.app.commands import settle_abandoned
from operator_sre.app.wiring import App, open_app
from operator_sre.config import Config, load_config
from operator_sre.controls import MACHINE
from operator_sre.executor.sandbox.bubblewrap import NAME_CHARS_MAX
from operator_sre.executor.sandbox.cgroup import PREFIX
from operator_sre.gate import warm
from operator_sre.ledger.redaction import Redactor
from operator_sre.processes.identity import rows
from operator_sre.processes.runner import client
from operator_sre.processes.runner.line import Line
from operator_sre.processes.runner.records import Records, mark_of
from operator_sre.processes.tree import MARK, environment_of
from operator_sre.store.intents import StoredIntents
from tests.processes.runners import end_runner

STEPS = (
    *("request", "judge", "approve", "permit", "intent", "send", "spawn", "output", "exit"),
    *("outcome", "ledger"),
)
ROUND_S_MAX = 60.0
# Most random moments lie where it matters: from the permit on, as long as it takes to run.
EARLY = 0.2
LATE_S_MAX = 0.06
SCRIPT_S_MAX = 0.25


def action_for(folder: Path, number: int, step: str) -> Action:
    """A command that counts its own runs, takes a moment, and says how it went; or a script."""
    if step == "script":
        return Action("execute_script", {"language": "bash", "text": f"echo {number}; sleep 0.2"})
    return Action.shell(f"echo {number} >> {folder}/runs; echo said; sleep 0.02; echo more")


def die() -> None:
    """As if the power of this one process had failed."""
    os.kill(os.getpid(), signal.SIGKILL)


class Victim:
    """An operator that executes one command and dies at the labelled step."""

    def __init__(self, config: Config, step: str, permitted: Path | None = None) -> None:
        self._config = config
        self._step = step
        self._permitted = permitted

    def at(self, step: str) -> None:
        """Die here, if this is the place."""
        if step == self._step:
            die()

    async def execute(self, action: Action, who: str) -> None:
        """The way that every action goes."""
        self._arm()
        with open_app(self._config) as app:
            self.at("request")
            controls = app.controls(MACHINE)
            gate, executor = controls.gate, controls.executor
            proposed = await controls.complete(action)
            assert isinstance(proposed, Action), proposed
            verdict = gate.judge(proposed)
            self.at("judge")
            approving = asyncio.ensure_future(self._approve(app, proposed.command))
            me = Actor(who, "user", f"{who}@here:1")
            permit = await gate.permit(verdict, None, me, subject=MACHINE)
            await approving
            assert isinstance(permit, Permit), permit
            self.at("permit")
            if self._permitted is not None:
                self._permitted.touch()
            await executor.execute(permit, watch=lambda stream, data: self.at("output"))
            self.at("ledger")

    async def _approve(self, app: App, command: str) -> None:
        """A person who says yes to this very command; others may still wait for theirs."""
        found: list[Approval] = []
        while not found:
            await asyncio.sleep(0.001)
            pending = app.store.approvals.find(states=(ApprovalState.PENDING,))
            found = [one for one in pending if one.action.command == command]
        await app.answering.answer(found[0], ApprovalState.APPROVED, by="bob", reason="")
        self.at("approve")

    def _arm(self) -> None:
        """Put the labels where the product itself has none."""
        _around(StoredIntents, "begin", after=lambda: self.at("intent"))
        _around(StoredIntents, "end", before=lambda: self.at("outcome"))
        _around(client.RunnerClient, "run", after=lambda: self.at("exit"))
        _around(Line, "send", after=lambda: self.at("send"))
        wait = client._wait

        async def waited(line: Any, request: Any, follower: Any, started: Any) -> Any:
            def told(process: Any) -> None:
                self.at("spawn")
                if started is not None:
                    started(process)

            return await wait(line, request, follower, told)

        client._wait = waited


def _around(
    owner: type,
    name: str,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    original = getattr(owner, name)

    async def around(*values: Any, **named: Any) -> Any:
        before()
        answer = await original(*values, **named)
        after()
        return answer

    setattr(owner, name, around)


def forked(
    work: Callable[[], Awaitable[None]],
    *,
    kill_after_s: float = ROUND_S_MAX,
    after: Path | None = None,
) -> bool:
    """Run it in a process of its own; True when it was killed, by itself or by us.

    The time until we do is counted from its start, or from when the file `after` is there.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(work())  # type: ignore[arg-type]
            code = 0
        except BaseException as error:  # noqa: BLE001
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
        finally:
            os._exit(code)
    ends = time.monotonic() + kill_after_s
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "it failed by itself"
            return os.WIFSIGNALED(status)
        if after is not None and after.exists():
            after, ends = None, time.monotonic() + kill_after_s
        if after is None and time.monotonic() >= ends:
            os.kill(pid, signal.SIGKILL)
            ends = float("inf")
        time.sleep(0.0005)


async def _after(config: Config, report: Path) -> None:
    """The next operator: looks at what is open, and tells what the ledger says now."""
    with open_app(config) as app:
        settled = await settle_abandoned(app, wait_s=ROUND_S_MAX)
        calls: list[tuple[str, Any]] = []
        results: dict[str, list[Any]] = {}
        for entry in app.store.entries.after(0, limit=100_000):
            if entry.kind is Kind.TOOL_CALL:
                calls.append((entry.payload["permit"], entry.payload["action"]["arguments"]))
            elif entry.kind is Kind.TOOL_RESULT:
                result = entry.payload["result"]
                results.setdefault(entry.payload["permit"], []).append(
                    [result["outcome"], result["exit_code"], result["stdout"]]
                )
        told = {
            "settled": [one.outcome if one else "runs" for one in settled.values()],
            "open": len(app.store.intents.open()),
            "whole": verify_ledger(app, progress=lambda seq: None).whole,
            "outcomes": [
                [where.get("command") or where["text"], results.get(permit, [])]
                for permit, where in calls
            ],
            "orphans": orphans(permit for permit, _ in calls),
            "boxes": boxes(permit for permit, _ in calls),
        }
    report.write_text(json.dumps(told))


def orphans(permits: Iterable[str]) -> list[int]:
    """Processes that came out of a permitted action and are still there."""
    marks = [f"{MARK}={mark_of(permit)}".encode() for permit in permits]
    living = [pid for pid, row in rows().items() if not row.dead]
    return [pid for pid in living if any(mark in environment_of(pid) for mark in marks)]


def boxes(permits: Iterable[str]) -> list[str]:
    """Folders and groups of boxes that are still there."""
    names = {f"{PREFIX}{permit[:NAME_CHARS_MAX]}" for permit in permits}
    found = [path for path in Path(tempfile.gettempdir()).iterdir() if path.name in names]
    groups = Path("/sys/fs/cgroup").glob(f"*/{PREFIX}*")
    return [str(path) for path in (*found, *(one for one in groups if one.name in names))]


def main(words: Sequence[str]) -> None:
    """Round after round, each with the same home."""
    folder, seed, rounds = Path(words[0]), words[1], int(words[2])
    steps, chance = words[3:], random.Random(seed)
    folder.mkdir(exist_ok=True)
    flags = {"home": str(folder / "home"), "mode": "approve", "changes_per_hour": "10000"}
    config = load_config(flags=flags, environ={}, cwd=folder)
    with open_app(config) as app:
        warm(app.controls(MACHINE).gate.policy())
    Redactor(bytes(32)).text("password=x")  # its patterns are compiled once, not in every round
    # What a runner that never ran cannot know is not what this is about.
    runner = folder / "home" / "runner"
    Records(runner).close()
    report = folder / "report.json"
    for _ in range(2):  # the second time everything is warm
        begun = time.monotonic()
        forked(partial(Victim(config, "").execute, action_for(folder, -1, ""), "ada"))
        whole_s = time.monotonic() - begun
    for number in range(rounds):
        step = steps[number % len(steps)]
        action = action_for(folder, number, step)
        permitted = folder / f"permitted-{number}"
        victim = Victim(config, step, permitted)
        work = partial(victim.execute, action, f"ada-{number}")
        if step not in ("random", "both", "script"):
            killed = forked(work)
        elif step != "script" and chance.random() < EARLY:
            killed = forked(work, kill_after_s=chance.uniform(0.0, whole_s))
        else:
            moment_s = chance.uniform(0.0, SCRIPT_S_MAX if step == "script" else LATE_S_MAX)
            killed = forked(work, kill_after_s=moment_s, after=permitted)
        if step == "both":
            end_runner(runner, signal.SIGKILL)
        forked(partial(_after, config, report))
        told = json.loads(report.read_text())
        said = action.arguments.get("command") or action.arguments["text"]
        outcomes = [found for line, found in told.pop("outcomes") if line == said]
        runs = (folder / "runs").read_text().split() if (folder / "runs").exists() else []
        told |= {
            "number": number,
            "step": step,
            "killed": killed,
            "runs": runs.count(str(number)),
            "outcomes": outcomes,
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    end_runner(runner)


if __name__ == "__main__":
    main(sys.argv[1:])
