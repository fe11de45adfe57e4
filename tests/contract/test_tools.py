"""What a Tool promises: it says what it is, and a failure is a Result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.ports import Tool
from operator_sre.executor.tools.port import CheckPort
from tests.executor.jobs import new_job

TOOLS: dict[str, Callable[[Callable[[], Sequence[Target]]], Tool]] = {"check_port": CheckPort}


@pytest.fixture(params=sorted(TOOLS))
def tool(request: pytest.FixtureRequest) -> Tool:
    return TOOLS[request.param](lambda: [Target("portless", "node")])


def test_a_tool_describes_itself(tool: Tool) -> None:
    spec = tool.spec
    assert spec.name.isidentifier()
    assert spec.sentence.endswith(".")
    assert all(one.name.isidentifier() and one.sentence for one in spec.parameters)
    assert spec.changes or spec.risk == "low"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"target": None},
        {"target": 7},
        {"target": "nobody"},
        {"target": "portless"},
        {"other": "x"},
    ],
    ids=str,
)
async def test_a_call_that_makes_no_sense_is_a_result(
    tool: Tool, arguments: dict[str, Value]
) -> None:
    result = await tool.call(arguments, new_job())
    assert result.outcome is Outcome.RAN
    assert not result.ok
    assert result.stderr
    assert result.category is not None
