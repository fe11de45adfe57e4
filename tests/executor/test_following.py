"""Whatever an executor runs follows the kill switch, whoever turns it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.errors import StoreError
from operator_protocols.ports import Job
from operator_sre.clock import SystemClock
from operator_sre.executor import Executor
from operator_sre.executor.execute import FOLLOW_S, KILLED
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Gate, Policy
from operator_sre.store import Store, open_store
from tests.contract.samples import violation
from tests.processes.waiting import eventually, gone, pids_in

pytestmark = pytest.mark.asyncio


class _Slow:
    """A tool that never ends by itself."""

    spec = ToolSpec("slow", "It takes its time.", (), Risk.LOW, changes=True)

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.stopped = False

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Wait until somebody stops it."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped = True
        raise AssertionError("nothing wakes it")


class _Bench:
    """An executor as the product wires it, on a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store: Store = open_store(folder / "operator.db", clock=SystemClock())
        self.slow = _Slow()
        self.unreadable = False
        self.executor = Executor(
            self.store.intents,
            LocalShell(Programs(Spool(folder / "spool"))),
            (self.slow,),
            generation=self._generation,
        )

    def _generation(self) -> int:
        if self.unreadable:
            raise StoreError("The store could not be read.")
        return self.store.switch.state().generation

    async def begin(self, action: Action) -> asyncio.Task[tuple[Result, object]]:
        policy = Policy(mode=Mode.EXECUTE, tools=(_Slow.spec,), auto=frozenset(Risk))
        store = self.store
        gate = Gate(lambda: policy, store.journal, store.approvals, SystemClock(), lambda: "x" * 12)
        await store.tickets.open([violation()])
        ticket = await store.leases.claim("w", run="run-1", lease_s=30.0, attempts_max=3)
        assert ticket is not None
        permit = await gate.permit(gate.judge(action), ticket)
        assert isinstance(permit, Permit)
        return asyncio.ensure_future(self.executor.execute(permit))

    def outcome(self) -> str:
        entry = self.store.entries.newest(limit=1)[0]
        assert entry.kind is Kind.TOOL_RESULT
        return str(entry.payload["result"]["outcome"])


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[_Bench]:
    one = _Bench(tmp_path)
    yield one
    one.store.close()


async def test_another_process_turns_it_and_a_command_ends(bench: _Bench) -> None:
    pids = bench.folder / "pids"
    task = await bench.begin(Action.shell(f"echo $$ > {pids}; sleep 60 & sleep 60"))
    await eventually(lambda: pids_in(pids))
    other = open_store(bench.folder / "operator.db", clock=SystemClock())
    await other.switch.turn_on(by="ada", reason="")
    other.close()
    async with asyncio.timeout(FOLLOW_S + 1.0):
        result, _ = await task
    assert (result.outcome, result.stderr) == (Outcome.CANCELLED, KILLED)
    assert gone(pids_in(pids))
    assert bench.outcome() == "cancelled"
    (command,) = bench.store.commands.newest(CommandFilter(), limit=9)
    assert not command.failed, "what was stopped says nothing about the change"


async def test_a_tool_ends_as_well(bench: _Bench) -> None:
    task = await bench.begin(Action("slow", {}))
    await bench.slow.begun.wait()
    await bench.store.switch.turn_on(by="ada", reason="")
    result, _ = await task
    assert result.outcome is Outcome.CANCELLED
    assert bench.slow.stopped


async def test_on_and_off_again_is_noticed_too(bench: _Bench) -> None:
    task = await bench.begin(Action("slow", {}))
    await bench.slow.begun.wait()
    await bench.store.switch.turn_on(by="ada", reason="")
    await bench.store.switch.turn_off(by="ada", reason="")
    result, _ = await task
    assert result.outcome is Outcome.CANCELLED


async def test_what_somebody_else_ended_meanwhile_was_not_the_commands_fault(
    bench: _Bench,
) -> None:
    go = bench.folder / "go"
    task = await bench.begin(
        Action.shell(f"touch {go}.ready; while ! test -e {go}; do sleep 0.01; done; kill -TERM $$")
    )
    await eventually(Path(f"{go}.ready").exists)
    await bench.store.switch.turn_on(by="ada", reason="")
    go.touch()
    result, _ = await task
    assert result.outcome is Outcome.CANCELLED
    assert KILLED in result.stderr


async def test_a_store_that_cannot_be_read_ends_nothing(bench: _Bench) -> None:
    task = await bench.begin(Action("slow", {}))
    await bench.slow.begun.wait()
    bench.unreadable = True
    done, _ = await asyncio.wait({task}, timeout=3 * FOLLOW_S)
    assert not done
    bench.unreadable = False
    await bench.store.switch.turn_on(by="ada", reason="")
    result, _ = await task
    assert result.outcome is Outcome.CANCELLED
