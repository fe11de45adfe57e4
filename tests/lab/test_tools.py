"""The typed tools of a rig."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_lab.rig import Rig, RunState
from operator_lab.tools import RESTART_NODE, RESUME_NODE, rig_tools
from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Tool
from tests.executor.jobs import new_job
from tests.lab.conftest import Up


def _tool(rig: Rig, name: str) -> Tool:
    return next(tool for tool in rig_tools(rig) if tool.spec.name == name)


def _state(rig: Rig, name: str) -> RunState:
    return next(each.state for each in rig.status().processes if each.name == name)


def test_they_say_what_they_risk(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert [tool.spec for tool in rig_tools(rig)] == [RESTART_NODE, RESUME_NODE]
    assert all(isinstance(tool, Tool) for tool in rig_tools(rig))
    assert (RESTART_NODE.risk, RESTART_NODE.changes, RESTART_NODE.reversible) == (
        Risk.MEDIUM,
        True,
        False,
    )
    assert (RESUME_NODE.risk, RESUME_NODE.changes, RESUME_NODE.reversible) == (
        Risk.LOW,
        True,
        True,
    )


@pytest.mark.asyncio
async def test_restart_node_brings_a_dead_node_back(up: Up) -> None:
    rig = await up()
    await rig.kill("node-2")
    result = await _tool(rig, "restart_node").call({"target": "node-2"}, new_job())
    process = next(target.process for target in rig.targets() if target.name == "node-2")
    assert process is not None
    assert result.ok
    assert result.stdout.startswith(f"node-2 restarted as pid {process.pid}, answering after ")
    assert result.duration_s > 0
    assert _state(rig, "node-2") is RunState.RUNNING


@pytest.mark.asyncio
async def test_resume_node_wakes_a_paused_node(up: Up) -> None:
    rig = await up()
    await rig.pause("node-1")
    result = await _tool(rig, "resume_node").call({"target": "node-1"}, new_job())
    assert result.ok
    assert result.stdout.startswith("node-1 resumed as pid ")
    assert _state(rig, "node-1") is RunState.RUNNING


@pytest.mark.asyncio
async def test_a_failure_is_a_result(up: Up) -> None:
    rig = await up()
    await rig.kill("node-1")
    result = await _tool(rig, "resume_node").call({"target": "node-1"}, new_job())
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 1)
    assert "'node-1' is not running" in result.stderr
    assert result.category is FailureCategory.RUNTIME


@pytest.mark.asyncio
async def test_only_a_process_of_this_rig_can_be_named(up: Up) -> None:
    rig = await up()
    before = rig.targets()
    refused: list[tuple[Mapping[str, Value], str, FailureCategory]] = [
        ({"target": "load"}, "no target 'load'", FailureCategory.NOT_FOUND),
        ({"target": "sshd"}, "It has node-1, node-2, store", FailureCategory.NOT_FOUND),
        ({}, "takes one argument", FailureCategory.RUNTIME),
        ({"target": 4711}, "takes one argument", FailureCategory.RUNTIME),
        ({"target": "node-1", "force": True}, "takes one argument", FailureCategory.RUNTIME),
    ]
    for tool in rig_tools(rig):
        for arguments, why, category in refused:
            result = await tool.call(arguments, new_job())
            assert (result.ok, result.exit_code, result.category) == (False, 1, category)
            assert why in result.stderr
    assert rig.targets() == before
