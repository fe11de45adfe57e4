"""The typed tool that runs a mind's own script in a box."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import ErrorCategory, FailureCategory
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job, Tool
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.sandbox import Limits, Script
from operator_sre.executor.scripts import Validation
from operator_sre.executor.tools.script import ExecuteScript
from tests.executor.jobs import new_job
from tests.executor.sandbox.boxes import bubblewrap

pytestmark = pytest.mark.asyncio


class NeverRun:
    """A box that is not to be reached; it notes who does."""

    name = "never"

    def __init__(self) -> None:
        self.ran: list[tuple[Script, Limits]] = []

    async def run(self, script: Script, limits: Limits, job: Job) -> Result:
        """Note it."""
        self.ran.append((script, limits))
        return Result(Outcome.RAN, exit_code=0)

    async def recover(self, job: Job) -> Result:
        """Nothing is known."""
        return Result(Outcome.UNKNOWN)


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[ExecuteScript]:
    with bubblewrap(tmp_path) as boxed:
        yield ExecuteScript(boxed.sandbox, Validation(Programs(Spool(tmp_path / "other"))))
        assert boxed.left() == []


async def test_it_is_critical_and_a_tool(tool: ExecuteScript) -> None:
    assert isinstance(tool, Tool)
    assert (tool.spec.name, tool.spec.risk, tool.spec.changes) == (
        "execute_script",
        Risk.CRITICAL,
        True,
    )


async def test_a_misconfiguration_is_found_by_a_script(tool: ExecuteScript) -> None:
    text = """
import json
config = json.load(open("/inputs/config.json"))
config["limit"] = max(config["limit"], 1)
print(json.dumps(config))
"""
    arguments: dict[str, Argument] = {
        "language": "python",
        "text": text,
        "inputs": {"config.json": '{"limit": 0, "region": "eu"}'},
    }
    result = await tool.call(arguments, new_job())
    assert result.ok, result.stderr
    assert result.stdout == '{"limit": 1, "region": "eu"}\n'


async def test_what_it_prints_and_how_it_ends_comes_back(tool: ExecuteScript) -> None:
    arguments = {"language": "bash", "text": "echo out; echo careful >&2; exit 3"}
    result = await tool.call(arguments, new_job())
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "careful\n")
    assert not result.timed_out


async def test_one_that_takes_too_long_is_ended(tool: ExecuteScript) -> None:
    arguments: dict[str, Argument] = {"language": "bash", "text": "echo on; sleep 99"}
    arguments["timeout_s"] = 1
    result = await tool.call(arguments, new_job())
    assert (result.timed_out, result.stdout) == (True, "on\n")


@pytest.mark.parametrize(
    ("text", "layer", "category", "error"),
    [
        ("x" * 10_001, "size", FailureCategory.RESOURCE, None),
        ("a = =", "syntax", FailureCategory.SYNTAX, None),
        (
            "password = 'hunter2hunter2'",
            "secrets",
            FailureCategory.PERMISSION,
            ErrorCategory.SECRET_SCAN_FAILED,
        ),
        ("eval('1')", "dangerous", FailureCategory.PERMISSION, ErrorCategory.POLICY_DENIED),
    ],
)
async def test_what_has_a_flaw_reaches_no_box(
    tmp_path: Path, text: str, layer: str, category: FailureCategory, error: ErrorCategory | None
) -> None:
    box = NeverRun()
    tool = ExecuteScript(box, Validation(Programs(Spool(tmp_path / "spool"))))
    result = await tool.call({"language": "python", "text": text}, new_job())
    assert (result.outcome, result.data["layer"]) == (Outcome.REFUSED, layer)
    assert result.category is category
    assert result.data.get("error_category") == (error and error.value)
    assert f"\n{layer}: " in result.stderr
    assert "hunter2" not in result.stderr
    assert box.ran == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"language": "perl", "text": "1"},
        {"language": "python"},
        {"language": "python", "text": "1", "timeout_s": 301},
        {"language": "python", "text": "1", "timeout_s": True},
        {"language": "python", "text": "1", "other": "x"},
    ],
)
async def test_wrong_arguments_reach_no_box(tmp_path: Path, arguments: dict[str, str]) -> None:
    box = NeverRun()
    tool = ExecuteScript(box, Validation(Programs(Spool(tmp_path / "spool"))))
    result = await tool.call(arguments, new_job())
    assert not result.ok
    assert box.ran == []


async def test_limits_and_hosts_are_handed_on(tmp_path: Path) -> None:
    box = NeverRun()
    validation = Validation(Programs(Spool(tmp_path / "spool")))
    tool = ExecuteScript(box, validation, hosts=lambda: ("example.org:443",))
    await tool.call({"language": "python", "text": "print(1)"}, new_job())
    await tool.call({"language": "python", "text": "print(1)", "timeout_s": 5}, new_job())
    assert [limits.timeout_s for _, limits in box.ran] == [60.0, 5.0]
    assert box.ran[0][0].hosts == ("example.org:443",)
    assert (await tool.recover({}, new_job())).outcome is Outcome.UNKNOWN
