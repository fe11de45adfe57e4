"""What an operator that is gone left open is found out once, and never run again."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.target import Initiator, Process
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.ports import Job
from operator_sre.clock import SystemClock
from operator_sre.executor import Executor
from operator_sre.executor.execute import Recovery, is_abandoned
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Program, Programs
from operator_sre.executor.transports.local import ENVIRONMENT, LocalShell
from operator_sre.gate import Gate, Policy
from operator_sre.processes.identity import process_of
from operator_sre.processes.runner.records import boot_id
from operator_sre.store import Store, open_store
from tests.processes.waiting import eventually, gone, pids_in

pytestmark = pytest.mark.asyncio
SPEC = ToolSpec("nudge", "It nudges.", (), Risk.LOW, changes=True)


def _origin(**changes: object) -> Initiator:
    me = process_of(os.getpid())
    assert me is not None
    return replace(Initiator("here", boot_id(), me), **changes)  # type: ignore[arg-type]


# One that had our pid, long ago.
DEAD = _origin(process=Process(os.getpid(), 1.0))


class _Bench:
    """An operator that is gone, and the one that comes after it."""

    def __init__(self, folder: Path) -> None:
        self.store: Store = open_store(folder / "operator.db", clock=SystemClock())
        self.programs = Programs(Spool(folder / "spool"))
        self.executor = Executor(
            self.store.intents,
            LocalShell(self.programs),
            (),
            initiator=_origin(),
            settle=self.programs.recover,
        )
        self.recovery = Recovery(self.store.intents, _origin(), lambda intent: self.executor)

    async def begun(self, action: Action, initiator: Initiator | None = DEAD) -> Entry:
        """An intent, and nothing after it."""
        policy = Policy(mode=Mode.EXECUTE, tools=(SPEC,), auto=frozenset(Risk))
        store = self.store
        gate = Gate(
            lambda: policy, store.journal, store.approvals, SystemClock(), secrets.token_urlsafe
        )
        permit = await gate.permit(gate.judge(action), None, subject="machine")
        assert isinstance(permit, Permit)
        return await store.intents.begin(permit, initiator=initiator)

    async def run(self, intent: Entry, command: str) -> asyncio.Task[Result]:
        """The command of an intent under way, as its operator had started it."""
        program = Program(("/bin/bash", "-c", command), ENVIRONMENT)
        job = Job(str(intent.payload["permit"]), 60.0)
        return asyncio.ensure_future(self.programs.run(program, job))

    def results(self) -> list[Entry]:
        entries = self.store.entries.after(0, limit=100)
        return [entry for entry in entries if entry.kind is Kind.TOOL_RESULT]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[_Bench]:
    one = _Bench(tmp_path)
    yield one
    one.store.close()


async def test_what_has_finished_is_recorded_with_its_exit(bench: _Bench, tmp_path: Path) -> None:
    intent = await bench.begun(Action.shell("x"))
    await (await bench.run(intent, f"echo ran >> {tmp_path}/runs; echo said; exit 3"))
    (result,) = (await bench.recovery.settle(wait_s=30)).values()
    assert result is not None
    assert (result.outcome, result.exit_code, result.stdout) == (Outcome.RAN, 3, "said\n")
    assert result.process is not None
    assert (tmp_path / "runs").read_text() == "ran\n"
    assert bench.store.intents.open() == []
    assert await bench.recovery.settle(wait_s=30) == {}
    assert len(bench.results()) == 1


async def test_what_still_runs_is_adopted_and_waited_for(bench: _Bench, tmp_path: Path) -> None:
    intent = await bench.begun(Action.shell("x"))
    os.mkfifo(tmp_path / "go")
    await bench.run(intent, f"echo $$ > {tmp_path}/pid; read line < {tmp_path}/go; echo end")
    await eventually(lambda: pids_in(tmp_path / "pid"))
    assert await bench.recovery.settle(wait_s=0.1) == {intent.seq: None}
    assert not gone(pids_in(tmp_path / "pid")), "whoever only passes by ends nothing"
    adopted = asyncio.ensure_future(bench.recovery.settle(wait_s=30))
    await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
    (result,) = (await adopted).values()
    assert result is not None
    assert (result.outcome, result.stdout) == (Outcome.RAN, "end\n")


async def test_what_never_began_is_told_so_and_never_begins(bench: _Bench, tmp_path: Path) -> None:
    await bench.programs.run(Program(("/bin/true",), ENVIRONMENT), Job("before", 9.0))
    intent = await bench.begun(Action.shell("x"))
    (result,) = (await bench.recovery.settle(wait_s=30)).values()
    assert result is not None
    assert result.outcome is Outcome.CANCELLED
    late = await (await bench.run(intent, f"touch {tmp_path}/ran"))
    assert late.outcome is Outcome.REFUSED
    assert not (tmp_path / "ran").exists()


async def test_what_nobody_can_know_is_unknown(bench: _Bench) -> None:
    """The runner of this home has never run: it cannot say that nothing began."""
    await bench.begun(Action.shell("x"))
    (result,) = (await bench.recovery.settle(wait_s=30)).values()
    assert result is not None
    assert result.outcome is Outcome.UNKNOWN
    assert "Check its effect before you repeat it" in result.stderr


async def test_a_typed_tool_is_unknown_once_its_programs_are_over(
    bench: _Bench, tmp_path: Path
) -> None:
    intent = await bench.begun(Action("nudge", {}))
    task = await bench.run(intent, f"echo $$ > {tmp_path}/pid; sleep 0.2")
    await eventually(lambda: pids_in(tmp_path / "pid"))
    (result,) = (await bench.recovery.settle(wait_s=30)).values()
    assert result is not None
    assert result.outcome is Outcome.UNKNOWN
    assert gone(pids_in(tmp_path / "pid"))
    await task


async def test_what_another_machine_began_is_left_to_it(bench: _Bench) -> None:
    elsewhere = await bench.begun(Action.shell("x"), _origin(host="there"))
    assert bench.recovery.open() == []
    result, _ = await bench.executor.recover(elsewhere)
    assert result.outcome is Outcome.UNKNOWN
    assert "another machine" in result.stderr


@pytest.mark.parametrize(
    ("initiator", "expected"),
    [
        (_origin(), False),
        (DEAD, True),
        (_origin(boot="another life"), True),
        (_origin(host="there"), False),
        (None, False),
    ],
    ids=["alive", "dead", "restarted", "elsewhere", "unsaid"],
)
async def test_only_what_is_abandoned_is_looked_at(
    bench: _Bench, initiator: Initiator | None, expected: bool
) -> None:
    intent = await bench.begun(Action.shell("x"), initiator)
    assert is_abandoned(intent, _origin()) is expected
    assert bench.recovery.open() == ([intent] if expected else [])


async def test_a_command_that_takes_its_time_is_recorded_with_its_process(
    bench: _Bench, tmp_path: Path
) -> None:
    action = Action.shell(f"echo $$ > {tmp_path}/pid; sleep 0.4")
    policy = Policy(mode=Mode.EXECUTE, auto=frozenset(Risk))
    store = bench.store
    gate = Gate(
        lambda: policy, store.journal, store.approvals, SystemClock(), secrets.token_urlsafe
    )
    permit = await gate.permit(gate.judge(action), None, subject="machine")
    assert isinstance(permit, Permit)
    result, _ = await bench.executor.execute(permit)
    entries = store.entries.after(0, limit=100)
    kinds = [entry.kind for entry in entries]
    assert kinds[-3:] == [Kind.TOOL_CALL, Kind.TOOL_STARTED, Kind.TOOL_RESULT]
    (pid,) = pids_in(tmp_path / "pid")
    assert entries[-2].payload["process"]["pid"] == pid
    assert result.process == Process(pid, entries[-2].payload["process"]["started"])
    assert entries[-3].payload["doer"]["boot"] == boot_id()
