"""Nothing runs without a permit, nothing runs twice, and what became of it is known."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.target import Initiator, Process
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.ports import Job
from operator_sre.executor import Executor
from operator_sre.executor.execute import NOT_BEGUN
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Gate, Policy
from operator_sre.store import Store, open_store
from tests.contract.clock import HeldClock
from tests.contract.samples import violation

pytestmark = pytest.mark.asyncio
INTEGER = ParameterType.INTEGER


class _Tool:
    """Does what the test says."""

    def __init__(self, *, hangs: bool = False) -> None:
        given = (
            Parameter("target", "whom", required=False),
            Parameter("n", "n", INTEGER, required=False),
        )
        self.spec = ToolSpec("nudge", "It nudges.", given, Risk.LOW, changes=True)
        self.calls: list[Mapping[str, Argument]] = []
        self.begun = asyncio.Event()
        self._hangs = hangs

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        self.calls.append(arguments)
        self.begun.set()
        if self._hangs:
            await asyncio.Event().wait()
        return Result(Outcome.RAN, 0, "nudged", data={"n": len(self.calls)})


class _Bench:
    """An executor on a real store, with permits from a real gate."""

    def __init__(self, path: Path) -> None:
        self.clock = HeldClock()
        self.store: Store = open_store(path, clock=self.clock)
        self._shell = LocalShell(Programs(Spool(path.parent / "spool")))
        self._ids = itertools.count(1)
        self._ticket: Ticket | None = None

    async def permit(self, action: Action) -> Permit:
        if self._ticket is None:
            await self.store.tickets.open([violation()])
            self._ticket = await self.store.leases.claim(
                "w", run="run-1", lease_s=30.0, attempts_max=3
            )
            assert self._ticket is not None
        everything = ToolSpec(action.tool, "It acts.", (), Risk.LOW, changes=True)
        policy = Policy(mode=Mode.EXECUTE, tools=(everything,), auto=frozenset(Risk))
        gate = Gate(
            lambda: policy,
            self.store.journal,
            self.store.approvals,
            self.clock,
            lambda: f"permit-{next(self._ids)}",
        )
        permit = await gate.permit(gate.judge(action), self._ticket)
        assert isinstance(permit, Permit)
        return permit

    def executor(self, *tools: _Tool) -> Executor:
        return Executor(self.store.intents, self._shell, tools)

    def told(self) -> list[Kind]:
        kinds = [entry.kind for entry in self.store.entries.after(0, limit=100)]
        return [kind for kind in kinds if kind in {Kind.TOOL_CALL, Kind.TOOL_RESULT}]

    def outcome(self) -> Entry:
        entry = self.store.entries.newest(limit=1)[0]
        assert entry.kind is Kind.TOOL_RESULT
        return entry


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[_Bench]:
    one = _Bench(tmp_path / "operator.db")
    yield one
    one.store.close()


async def test_a_command_runs_between_its_intent_and_its_outcome(
    bench: _Bench, tmp_path: Path
) -> None:
    file = tmp_path / "made"
    permit = await bench.permit(Action.shell(f"touch {file}; echo done; exit 3"))
    result, entry = await bench.executor().execute(permit)
    assert file.exists()
    assert (result.outcome, result.exit_code, result.stdout) == (Outcome.RAN, 3, "done\n")
    assert entry == bench.outcome()
    assert bench.told() == [Kind.TOOL_CALL, Kind.TOOL_RESULT]
    assert entry.payload["permit"] == permit.fingerprint
    assert entry.payload["result"]["exit_code"] == 3


async def test_the_intent_is_durable_before_anything_starts(bench: _Bench, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    database = tmp_path / "operator.db"
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "q = \\\"SELECT count(*) FROM entries WHERE kind = 'tool_call'\\\";"
        "print(c.execute(q).fetchone()[0])"
    )
    command = f'python3 -c "{code}" {database} > {file}'
    result, _ = await bench.executor().execute(await bench.permit(Action.shell(command)))
    assert result.ok, result.stderr
    assert file.read_text().strip() == "1"


class _PreparedCommand:
    """What a shell got ready, and whether it was started or dropped."""

    def __init__(self, bench: _Bench) -> None:
        self._bench = bench
        self.dropped = False
        self.known: list[Kind] = []

    async def run(self, job: Job) -> Result:
        self.known = self._bench.told()
        return Result(Outcome.RAN, 0, "prepared")

    def drop(self) -> None:
        self.dropped = True


class _PreparingShell:
    """A shell that is ready before the intent is written."""

    def __init__(self, bench: _Bench) -> None:
        self._bench = bench
        self.prepared: list[_PreparedCommand] = []

    def prepare(self, action: Action, job: Job) -> _PreparedCommand:
        assert self._bench.told() in ([], [Kind.TOOL_CALL, Kind.TOOL_RESULT])
        self.prepared.append(_PreparedCommand(self._bench))
        return self.prepared[-1]

    async def run(self, action: Action, job: Job) -> Result:
        raise AssertionError(action)

    async def recover(self, action: Action, job: Job) -> Result:
        raise AssertionError(action)


async def test_a_prepared_command_starts_behind_its_intent(bench: _Bench) -> None:
    shell = _PreparingShell(bench)
    executor = Executor(bench.store.intents, shell, ())
    permit = await bench.permit(Action.shell("true"))
    result, _ = await executor.execute(permit)
    assert result.stdout == "prepared"
    assert shell.prepared[0].known == [Kind.TOOL_CALL]
    refused, entry = await executor.execute(permit)
    assert (refused.outcome, entry) == (Outcome.REFUSED, None)
    assert [command.dropped for command in shell.prepared] == [False, True]
    assert shell.prepared[1].known == []


async def test_a_permit_that_was_used_runs_nothing(bench: _Bench, tmp_path: Path) -> None:
    file = tmp_path / "count"
    permit = await bench.permit(Action.shell(f"echo x >> {file}"))
    executor = bench.executor()
    await executor.execute(permit)
    result, entry = await executor.execute(permit)
    assert (result.outcome, entry) == (Outcome.REFUSED, None)
    assert "used" in result.stderr
    assert file.read_text() == "x\n"


@pytest.mark.parametrize("way", ["expired", "other command", "forged", "other policy", "stale"])
async def test_nothing_runs_when_the_permit_is_refused(
    bench: _Bench, tmp_path: Path, way: str
) -> None:
    file = tmp_path / "made"
    permit = await bench.permit(Action.shell(f"touch {file}"))
    if way == "expired":
        bench.clock.advance(1000.0)
    elif way == "other command":
        permit = replace(permit, action=Action.shell(f"touch {file}; true"))
    elif way == "forged":
        permit = replace(permit, id="forged")
    elif way == "other policy":
        permit = replace(permit, policy_digest="other")
    else:
        bench.clock.advance(30.0)
        assert await bench.store.leases.claim("v", run="run-2", lease_s=30.0, attempts_max=3)
    result, entry = await bench.executor().execute(permit)
    assert (result.outcome, entry) == (Outcome.REFUSED, None)
    assert not file.exists()
    assert bench.told() == []


async def test_of_two_who_execute_one_permit_one_does(bench: _Bench, tmp_path: Path) -> None:
    file = tmp_path / "count"
    permit = await bench.permit(Action.shell(f"echo x >> {file}"))
    executor = bench.executor()
    outcomes = await asyncio.gather(*(executor.execute(permit) for _ in range(5)))
    assert sorted(result.outcome for result, _ in outcomes) == [
        Outcome.RAN,
        *[Outcome.REFUSED] * 4,
    ]
    assert file.read_text() == "x\n"


async def test_a_tool_is_called_with_its_arguments(bench: _Bench) -> None:
    tool = _Tool()
    permit = await bench.permit(Action("nudge", {"target": "node-1", "n": 2}))
    result, entry = await bench.executor(tool).execute(permit)
    assert tool.calls == [{"target": "node-1", "n": 2}]
    assert (result.stdout, result.data) == ("nudged", {"n": 1})
    assert entry is not None
    assert entry.payload["result"]["data"] == {"n": 1}


async def test_a_tool_that_is_not_there_is_told_as_not_found(bench: _Bench) -> None:
    result, _ = await bench.executor(_Tool()).execute(await bench.permit(Action("prod", {})))
    assert (result.exit_code, result.category) == (127, FailureCategory.NOT_FOUND)
    assert "'prod'" in result.stderr
    assert bench.told() == [Kind.TOOL_CALL, Kind.TOOL_RESULT]


async def test_a_tool_that_takes_too_long_is_stopped(bench: _Bench) -> None:
    action = Action("nudge", {}, timeout_s=0.05)
    result, entry = await bench.executor(_Tool(hangs=True)).execute(await bench.permit(action))
    assert (result.outcome, result.exit_code) == (Outcome.TIMED_OUT, 124)
    assert result.category is FailureCategory.TIMEOUT
    assert entry is not None
    assert entry.payload["result"]["outcome"] == "timed_out"


async def test_a_cancelled_tool_is_recorded_and_the_cancellation_goes_on(bench: _Bench) -> None:
    tool = _Tool(hangs=True)
    permit = await bench.permit(Action("nudge", {}))
    running = asyncio.ensure_future(bench.executor(tool).execute(permit))
    await tool.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.outcome().payload["result"]["outcome"] == "cancelled"
    assert bench.told() == [Kind.TOOL_CALL, Kind.TOOL_RESULT]


class _Slow:
    """Intents that are written long before whoever waits for them hears of it."""

    def __init__(self, bench: _Bench) -> None:
        self.written, self.told, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._intents = bench.store.intents

    async def begin(
        self, permit: Permit, limits: Limits | None = None, *, initiator: Initiator | None = None
    ) -> Entry:
        intent = await self._intents.begin(permit, limits, initiator=initiator)
        self.written.set()
        await self.told.wait()
        return intent

    async def record_start(self, intent: Entry, process: Process) -> Entry:
        return await self._intents.record_start(intent, process)

    async def end(self, intent: Entry, result: Result) -> Entry:
        entry = await self._intents.end(intent, result)
        self.ended.set()
        return entry

    def open(self) -> Sequence[Entry]:
        return self._intents.open()


@pytest.mark.parametrize("times", [1, 2])
async def test_whoever_is_cancelled_while_it_begins_leaves_nothing_open(
    bench: _Bench, times: int
) -> None:
    tool, intents = _Tool(), _Slow(bench)
    permit = await bench.permit(Action("nudge", {}))
    running = asyncio.ensure_future(replace(bench.executor(tool), intents=intents).execute(permit))
    await intents.written.wait()
    for _ in range(times):
        running.cancel()
        await asyncio.sleep(0)
    intents.told.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    await intents.ended.wait()
    assert bench.told() == [Kind.TOOL_CALL, Kind.TOOL_RESULT]
    ended = bench.outcome().payload["result"]
    assert (ended["outcome"], ended["stderr"]) == ("cancelled", NOT_BEGUN)
    assert tool.calls == []
    assert (await bench.executor(tool).execute(permit))[0].outcome is Outcome.REFUSED


async def test_a_cancelled_command_is_ended_and_recorded(bench: _Bench, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    permit = await bench.permit(Action.shell(f"echo x > {begun}; exec sleep 60"))
    running = asyncio.ensure_future(bench.executor().execute(permit))
    await asyncio.to_thread(begun.read_text)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.outcome().payload["result"]["outcome"] == "cancelled"


async def test_a_refused_permit_does_not_stop_the_next(bench: _Bench) -> None:
    executor = bench.executor()
    good = await bench.permit(Action.shell("echo fine"))
    await executor.execute(replace(good, id="forged"))
    result, _ = await executor.execute(good)
    assert result.stdout == "fine\n"
