"""A function as a typed tool: checked arguments in, and a Result whatever happens."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from operator_protocols.domain.action import Argument
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConfigError
from operator_protocols.kit.options import read_options
from operator_protocols.kit.tool import (
    Call,
    CheckedTool,
    Done,
    RefusedCall,
    TypedTool,
    find_target,
)
from operator_protocols.ports import Job, Preparing, Tool

pytestmark = pytest.mark.asyncio

SPEC = ToolSpec(
    "scale",
    "Change the number of workers.",
    (
        Parameter("target", "the pool"),
        Parameter("count", "how many", ParameterType.INTEGER, minimum=1, maximum=9),
        Parameter("mode", "how", required=False, default="slow", choices=("slow", "fast")),
    ),
    Risk.MEDIUM,
    changes=True,
    timeout_s=0.2,
)
FIT: Mapping[str, Argument] = {"target": "pool", "count": 3}


async def _scale(call: Call) -> Done:
    if call.text("target") == "nobody":
        raise RefusedCall("There is no such pool.", FailureCategory.NOT_FOUND)
    if call.text("target") == "stuck":
        await asyncio.Event().wait()
    if call.text("target") == "broken":
        raise OSError("the line is down")
    return Done(f"{call.integer('count')} workers, {call.text('mode')}", {"count": 3})


async def test_what_was_done_is_a_result() -> None:
    tool = TypedTool(SPEC, _scale)
    assert isinstance(tool, Tool)
    assert not isinstance(tool, Preparing)
    result = await tool.call(FIT, Job())
    assert (result.ok, result.stdout, result.data) == (True, "3 workers, slow", {"count": 3})


@pytest.mark.parametrize(
    ("change", "category", "words"),
    [
        ({"size": 1}, FailureCategory.SYNTAX, "'size' is not a parameter"),
        ({"target": None}, FailureCategory.SYNTAX, "'target' is missing"),
        ({"count": "3"}, FailureCategory.SYNTAX, "'count' is not valid"),
        ({"count": True}, FailureCategory.SYNTAX, "'count' is not valid"),
        ({"count": 0}, FailureCategory.SYNTAX, "'count' is not valid"),
        ({"count": 10}, FailureCategory.SYNTAX, "'count' is not valid"),
        ({"mode": "odd"}, FailureCategory.SYNTAX, "'mode' is not valid"),
        ({"target": "nobody"}, FailureCategory.NOT_FOUND, "no such pool"),
        ({"target": "stuck"}, FailureCategory.TIMEOUT, "did not finish within 0.2 s"),
        ({"target": "broken"}, FailureCategory.RUNTIME, "the line is down"),
    ],
)
async def test_every_failure_is_a_result(
    change: dict[str, Argument], category: FailureCategory, words: str
) -> None:
    result = await TypedTool(SPEC, _scale).call({**FIT, **change}, Job())
    assert (result.ok, result.category) == (False, category)
    assert words in result.stderr


async def test_what_speaks_against_a_call_is_a_flaw_before_it() -> None:
    async def check(call: Call) -> None:
        await _scale(call)

    tool = CheckedTool(SPEC, _scale, check=check)
    assert isinstance(tool, Preparing)
    assert (await tool.prepare(FIT)).flaws == ()
    assert (await tool.prepare({**FIT, "target": "nobody"})).flaws == ("There is no such pool.",)
    assert (await tool.prepare({**FIT, "target": "broken"})).flaws == ()
    assert (await tool.prepare({})).category == FailureCategory.SYNTAX


async def test_a_target_is_found_by_name_and_kind() -> None:
    known = [Target("a", "pool"), Target("b", "store")]
    assert find_target(known, "a", "pool", "store") is known[0]
    with pytest.raises(RefusedCall, match="There is no pool 'b'; there are: a"):
        find_target(known, "b", "pool")


@dataclass(frozen=True, slots=True)
class _Options:
    ratio: float = 0.5
    count: int = 3
    probe: bool = True
    mode: str = "slow"


async def test_options_are_read_by_the_type_of_their_default() -> None:
    found = read_options(
        _Options, {"ratio": 1, "count": 4, "password": "x"}, subject="a pool", others=("password",)
    )
    assert found == _Options(1.0, 4)
    assert isinstance(found.ratio, float)
    for name, value in (
        *(("ratio", True), ("ratio", -1), ("ratio", float("inf")), ("ratio", "1")),
        *(("count", 1.5), ("probe", 1), ("mode", 1), ("mode", "odd"), ("size", 1)),
    ):
        with pytest.raises(ConfigError, match=f"^'{name}'"):
            read_options(_Options, {name: value}, subject="a pool", choices={"mode": ("slow",)})
