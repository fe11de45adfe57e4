"""What a Tool promises: it says what it is, and a failure is a Result."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from operator_lab.rig import Rig
from operator_lab.tools import rig_tools
from operator_protocols.domain.action import TIMEOUT_S_MAX, Argument, Outcome
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Prepared, ToolSource
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Preparing, Tool
from operator_sre.clock import SystemClock
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools.files import Rights
from operator_sre.executor.tools.general import standard_tools
from operator_sre.executor.tools.parameters import Invalid, validate
from operator_sre.executor.tools.registry import Registry
from tests.executor.jobs import new_job


def _registry(folder: Path) -> Registry:
    """All of them, with nothing that they may touch."""
    standard = standard_tools(
        programs=Programs(Spool(folder / "spool")),
        clock=SystemClock(),
        targets=lambda: [Target("portless", "node")],
        manages=lambda service: False,
        rights=Rights(writable=lambda path: False, secret=lambda path: False),
        redact=lambda before, text, after: text,
        home=folder,
    )
    return Registry((*standard, *rig_tools(Rig(folder / "rig"))))


KNOWN = _registry(Path("/nonexistent"))
NAMES = [spec.name for spec in KNOWN.specs]
NEEDING = [spec.name for spec in KNOWN.specs if any(one.required for one in spec.parameters)]
PREPARING = [name for name in NAMES if isinstance(KNOWN.get_tool(name), Preparing)]


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return _registry(tmp_path)


@pytest.fixture(params=NAMES)
def tool(request: pytest.FixtureRequest, registry: Registry) -> Tool:
    return registry.get_tool(request.param)


def test_a_tool_describes_itself(tool: Tool) -> None:
    spec = tool.spec
    assert spec.name.isidentifier()
    assert spec.name.islower()
    assert spec.sentence.endswith(".")
    assert all(one.name.isidentifier() and one.sentence for one in spec.parameters)
    assert len({one.name for one in spec.parameters}) == len(spec.parameters)
    assert spec.source in ToolSource
    assert 0 < spec.timeout_s <= TIMEOUT_S_MAX
    assert spec.changes or spec.risk is Risk.LOW


def test_what_takes_it_back_is_a_tool(tool: Tool, registry: Registry) -> None:
    spec = tool.spec
    assert spec.changes or (spec.undo, spec.reversible) == ("", False)
    assert not spec.undo or (spec.reversible and registry.get_tool(spec.undo).spec.changes)


def test_what_is_not_required_has_a_default_that_fits(tool: Tool) -> None:
    wrong = []
    for one in tool.spec.parameters:
        if one.default is not None:
            found = validate(tool.spec, {one.name: one.default})
            errors = found.errors if isinstance(found, Invalid) else ()
            wrong += [error for error in errors if error.startswith(repr(one.name))]
    assert wrong == []
    assert [one for one in tool.spec.parameters if one.required and one.default is not None] == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "arguments",
    [
        {"target": None},
        {"target": 7},
        {"target": "nobody"},
        {"target": "portless"},
        {"other": "x"},
        {"service": "sshd", "path": "/etc/shadow", "pid": 1, "seconds": -1, "text": 3},
    ],
    ids=str,
)
async def test_a_call_that_makes_no_sense_is_a_result(
    tool: Tool, arguments: dict[str, Argument]
) -> None:
    result = await tool.call(arguments, new_job())
    assert result.outcome is Outcome.RAN
    assert not result.ok
    assert result.stderr
    assert result.category is not None


@pytest.mark.asyncio
@pytest.mark.parametrize("tool", NEEDING, indirect=True)
async def test_a_call_without_anything_is_a_result(tool: Tool) -> None:
    result = await tool.call({}, new_job())
    assert (result.outcome, result.ok) == (Outcome.RAN, False)


VALUES = some.none() | some.booleans() | some.integers() | some.text() | some.floats()


@pytest.mark.asyncio
@pytest.mark.parametrize("tool", PREPARING, indirect=True)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=some.lists(VALUES, min_size=4, max_size=4))
async def test_looking_before_a_call_never_fails(tool: Tool, values: list[Argument]) -> None:
    assert isinstance(tool, Preparing)
    given = dict(zip([one.name for one in tool.spec.parameters], values, strict=False))
    prepared = await tool.prepare(given)
    assert isinstance(prepared, Prepared)
    assert prepared.arguments.keys() <= {one.name for one in tool.spec.parameters}
