"""What is recorded of an action is what became of it, at the edges of its time as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.act import ActionRecord, Request, act
from operator_sre.executor import Executor
from operator_sre.executor.execute import KILLED
from operator_sre.gate import Gate
from tests.contract.workshop import Script, Workshop

pytestmark = pytest.mark.asyncio


class _Switched:
    """A tool during whose call somebody turns the kill switch."""

    spec = ToolSpec(
        "count",
        "It counts.",
        (Parameter("n", "how far", ParameterType.INTEGER),),
        Risk.LOW,
        changes=True,
    )

    def __init__(self) -> None:
        self.generation = 0
        self.calls = 0
        self.exit_code = 0

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Succeed or fail, in the same moment."""
        self.calls += 1
        self.generation += 1
        return Result(Outcome.RAN, self.exit_code, "counted")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path, Script())
    yield made
    made.close()


async def _count(shop: Workshop, tool: _Switched, n: Argument) -> ActionRecord:
    shop.tools = (tool,)
    made = shop.controls("shop")
    executor = Executor(
        shop.store.intents, made.executor.shell, (tool,), generation=lambda: tool.generation
    )
    gate: Gate = made.gate
    controls = type(made)(made.subject, gate, executor)
    return await act(controls, Request(Action("count", {"n": n}, target="node-1"), subject="shop"))


async def test_what_succeeded_before_the_kill_switch_reached_it_is_no_cancelled_action(
    shop: Workshop,
) -> None:
    record = await _count(shop, _Switched(), 3)
    assert (record.result.outcome, record.result.stdout) == (Outcome.RAN, "counted")
    (entry,) = shop.entries(Kind.TOOL_RESULT)
    assert entry.payload["result"]["outcome"] == "ran"


async def test_what_failed_while_the_kill_switch_was_turned_may_be_partly_done(
    shop: Workshop,
) -> None:
    tool = _Switched()
    tool.exit_code = 1
    record = await _count(shop, tool, 3)
    assert record.result.outcome is Outcome.CANCELLED
    assert KILLED in record.result.stderr


@pytest.mark.parametrize("wrong", ["three", True, None])
async def test_a_tool_is_never_called_with_arguments_that_it_does_not_take(
    shop: Workshop, wrong: Argument
) -> None:
    tool = _Switched()
    record = await _count(shop, tool, wrong)
    assert tool.calls == 0
    assert not record.result.ok
    assert "n" in record.result.stderr
    (entry,) = shop.entries(Kind.TOOL_RESULT)
    assert entry.seq == record.seq
