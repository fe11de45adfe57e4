"""Workflows are listed, shown and cancelled alike by every face."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Actor
from operator_protocols.domain.workflow import WorkflowState
from operator_protocols.errors import UsageError
from operator_sre.faces.mcp.tools import TOOLS, Asking, Document
from operator_sre.operations.workflows import (
    ListWorkflows,
    RunWorkflow,
    ScheduledWorkflow,
    scheduled_view,
)
from tests.contract.samples import workflow_record
from tests.faces.api.world import World, world_at
from tests.faces.cli.tree import run_here

ADA = Actor("ada", "user", "ada@desk:7")


def _ask_for(world: World, *names: str) -> None:
    for name in names:
        asyncio.run(world.app.store.workflows.add(workflow_record(name)))


def test_the_api_and_the_command_line_list_the_same_page_by_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with world_at(tmp_path) as world:
        _ask_for(world, "workflow-7", "workflow-8", "workflow-9")
        whole = world.call("GET", "/v1/workflows?limit=500").json()["workflows"]
        assert [one["id"] for one in whole][:3] == ["workflow-9", "workflow-8", "workflow-7"]
        first = world.call("GET", "/v1/workflows?limit=1").json()
        assert first["workflows"] == whole[:1]
        rest = world.call("GET", f"/v1/workflows?limit=500&cursor={first['next_cursor']}").json()
        assert rest["workflows"] == whole[1:]
        asyncio.run(world.app.store.workflows.cancel("workflow-8", by=ADA, reason=""))
        some = world.call("GET", "/v1/workflows?limit=500&state=cancelled").json()["workflows"]
        assert "workflow-8" in [one["id"] for one in some]
        assert {one["state"] for one in some} == {"cancelled"}
        assert world.call("GET", "/v1/workflows?scheduled=true").status_code == 422
        whole = world.call("GET", "/v1/workflows?limit=500").json()["workflows"]
        home = world.app.config.home
    monkeypatch.setenv("OPERATOR_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    printed = run_here(capsys, ["workflows", "list", "--json"])
    assert json.loads(printed.out)["workflows"] == whole


def test_a_person_cancels_a_workflow_once(tmp_path: Path) -> None:
    with world_at(tmp_path) as world:
        _ask_for(world, "workflow-7")
        path = "/v1/workflows/workflow-7"
        shown = world.call("GET", path, role="viewer").json()
        assert shown["workflow"]["state"] == "pending"
        assert shown["entries"][0]["kind"] == "workflow_requested"
        assert world.call("POST", f"{path}/cancel", json={}, role="viewer").status_code == 403
        asked = {"reason": "not needed"}
        done = world.call("POST", f"{path}/cancel", json=asked, role="approver")
        assert done.status_code == 200, done.text
        assert done.json()["workflow"]["state"] == "cancelled"
        assert "not needed" in done.json()["workflow"]["reason"]
        assert world.call("POST", f"{path}/cancel", json=asked).status_code == 409
        assert world.call("GET", "/v1/workflows/nosuch").status_code == 404
        assert world.call("POST", "/v1/workflows/nosuch/cancel", json={}).status_code == 404


def test_a_model_sees_the_state_of_workflows(tmp_path: Path) -> None:
    with world_at(tmp_path) as world:
        _ask_for(world, "workflow-7")

        async def call() -> Document:
            asked = ListWorkflows(states=(WorkflowState.PENDING,))
            return await TOOLS["list_workflows"].call(Asking(world.app, ADA), asked)

        (told,) = (one for one in asyncio.run(call())["workflows"] if one["id"] == "workflow-7")
        assert told["state"] == "pending"
        assert "workflow" not in told, "a definition may be long, and says nothing of the state"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "Name a definition"),
        ({"file": "w.yaml", "due": True}, "Name a definition"),
        ({"due": True, "at": "+1m"}, "need a definition"),
        ({"resume": True, "dry_run": True}, "need a definition"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    given: dict[str, bool | str], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        RunWorkflow(**given)  # type: ignore[arg-type]


def test_a_scheduled_workflow_says_when_it_runs_and_how_to_cancel_it() -> None:
    record = workflow_record("workflow-7", in_s=90.0)
    lines = scheduled_view(ScheduledWorkflow(record, ()))
    assert lines[0] == f"workflow-7 is due at {record.due_at:%Y-%m-%d %H:%M:%S} UTC."
    assert lines[-1] == "To cancel it: operator workflows cancel workflow-7"
