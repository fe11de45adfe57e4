"""A tool that breaks leaves no intent open, and a script in a box does not count as a change."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.ports import Job
from operator_sre.clock import SystemClock
from operator_sre.executor import Executor
from operator_sre.executor.execute import Recovering
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Gate, Policy
from operator_sre.store import Store, open_store

pytestmark = pytest.mark.asyncio


class _Tool:
    """Breaks, or fails as it should."""

    def __init__(self, name: str, *, breaks: bool) -> None:
        self.spec = ToolSpec(name, "It acts.", (), Risk.LOW, changes=True)
        self._breaks = breaks

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        if self._breaks:
            raise TypeError("nobody thought of this")
        return Result(Outcome.RAN, 1)


async def _execute(store: Store, folder: Path, tool: _Tool) -> Result:
    policy = Policy(mode=Mode.EXECUTE, tools=(tool.spec,), auto=frozenset(Risk))
    gate = Gate(
        lambda: policy, store.journal, store.approvals, SystemClock(), secrets.token_urlsafe
    )
    verdict = gate.judge(Action(tool.spec.name, {}))
    permit = await gate.permit(verdict, None, subject="machine")
    assert isinstance(permit, Permit)
    executor = Executor(store.intents, LocalShell(Programs(Spool(folder / "spool"))), (tool,))
    return (await executor.execute(permit))[0]


async def test_a_tool_that_breaks_is_unknown_and_not_open(tmp_path: Path) -> None:
    store = open_store(tmp_path / "operator.db", clock=SystemClock())
    tool = _Tool("nudge", breaks=True)
    assert not isinstance(tool, Recovering)
    result = await _execute(store, tmp_path, tool)
    assert result.outcome is Outcome.UNKNOWN
    assert "TypeError" in result.stderr
    assert "nobody thought" not in result.stderr, "what it says may be anything"
    assert store.intents.open() == []
    store.close()


@pytest.mark.parametrize(("name", "failures"), [("execute_script", 0), ("nudge", 2)])
async def test_a_boxed_script_that_fails_says_nothing_about_changes(
    tmp_path: Path, name: str, failures: int
) -> None:
    store = open_store(tmp_path / "operator.db", clock=SystemClock())
    for _ in range(2):
        assert not (await _execute(store, tmp_path, _Tool(name, breaks=False))).ok
    usage = store.limit_usage.usage("machine", Limits(), now=SystemClock().now())
    assert usage.failures == failures
    store.close()
