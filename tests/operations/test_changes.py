"""What Operator changed is told newest first, with what undoes it, and alike by every face."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Mode, Risk
from operator_sre.app.wiring import App
from operator_sre.faces.mcp.tools import TOOLS, Asking, Document
from operator_sre.gate import Gate, Policy
from operator_sre.operations.changes import (
    Change,
    ChangePage,
    ListChanges,
    UndoState,
    list_changes,
)
from tests.app.home import SUBJECTS, opened
from tests.faces.api.world import world_at
from tests.faces.cli.tree import run_here
from tests.faces.web.world import web_at

ADA = Actor("ada", "user", "ada@desk:7")
DRAIN, UNDRAIN = "systemctl stop cache", "systemctl start cache"
POLICY = Policy(mode=Mode.EXECUTE, auto=frozenset(Risk))


async def _perform(
    app: App, command: str, target: str = "node-1", *, exit_code: int = 0, undo: str = ""
) -> None:
    """What the gate and the executor record of one call."""
    store = app.store
    gate = Gate(lambda: POLICY, store.journal, store.approvals, app.clock, app.new_id)
    action = Action.shell(command, target=target)
    permit = await gate.permit(gate.judge(action), None, ADA, subject="shop")
    assert isinstance(permit, Permit), permit
    back = Action.shell(undo, target=target) if undo else None
    await store.intents.end(
        await store.intents.begin(permit), Result(Outcome.RAN, exit_code, undo=back)
    )


def _listed(app: App, *, subject: str = "", before: int = 0, limit: int = 20) -> list[Change]:
    return list(list_changes(app, subject=subject, before=before, limit=limit))


def test_a_change_is_undone_by_the_later_call_that_its_result_names(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        assert _listed(app) == []
        asyncio.run(_perform(app, DRAIN, undo=UNDRAIN))
        (drained,) = _listed(app)
        assert (drained.undo, drained.undone_by) == (UndoState.AVAILABLE, None)
        assert drained.undo_command == UNDRAIN
        asyncio.run(_perform(app, UNDRAIN, "node-2"))
        asyncio.run(_perform(app, UNDRAIN, exit_code=1))
        assert _listed(app)[-1].undo is UndoState.AVAILABLE, "another target, and a failure"
        asyncio.run(_perform(app, UNDRAIN))
        newest, *_, oldest = _listed(app)
        assert (oldest.undo, oldest.undone_by) == (UndoState.UNDONE, newest.seq)
        assert (newest.undo, newest.undo_command) == (UndoState.NONE, "")


def test_a_change_that_failed_or_runs_cannot_be_undone(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        asyncio.run(_perform(app, DRAIN, exit_code=1, undo=UNDRAIN))
        (failed,) = _listed(app)
        assert (failed.exit_code, failed.undo) == (1, UndoState.NONE)


def test_changes_are_told_newest_first_and_by_subject(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        for target in ("node-1", "node-2", "node-3"):
            asyncio.run(_perform(app, DRAIN, target))
        found = _listed(app)
        assert [one.target for one in found] == ["node-3", "node-2", "node-1"]
        assert _listed(app, before=found[0].seq, limit=1) == [found[1]]
        assert _listed(app, subject="shop") == found
        assert _listed(app, subject="bank") == []
        asked = ListChanges(subject="shop", limit=2)
        page = ChangePage(tuple(found[:2]))

        async def call() -> Document:
            return await TOOLS["list_changes"].call(Asking(app, ADA), asked)

        told = asyncio.run(call())
        assert [one["seq"] for one in told["changes"]] == [one.seq for one in page.changes]


def test_the_api_and_the_command_line_tell_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with world_at(tmp_path) as world:
        for target in ("node-1", "node-2", "node-3"):
            asyncio.run(_perform(world.app, DRAIN, target, undo=UNDRAIN))
        whole = world.call("GET", "/v1/changes?limit=500").json()
        assert len(whole["changes"]) > 1
        first = world.call("GET", "/v1/changes?limit=1").json()
        assert first["changes"] == whole["changes"][:1]
        rest = world.call("GET", f"/v1/changes?limit=500&cursor={first['next_cursor']}").json()
        assert rest["changes"] == whole["changes"][1:]
        home = world.app.config.home
    monkeypatch.setenv("OPERATOR_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    printed = run_here(capsys, ["changes", "list", "--limit", "500", "--json"])
    assert json.loads(printed.out)["changes"] == whole["changes"]
    people = run_here(capsys, ["changes", "list"])
    assert str(whole["changes"][0]["seq"]) in people.out


def test_the_console_has_a_page_of_changes(tmp_path: Path) -> None:
    with web_at(tmp_path) as web:
        asyncio.run(_perform(web.app, DRAIN, undo=UNDRAIN))
        found, viewer = _listed(web.app), web.person("viewer")
        assert found
        text = viewer.get("/changes").text
        assert all(f'data-name="entry">{one.seq}</td>' in text for one in found)
        assert "Operator has changed nothing." in viewer.get("/changes?subject=nosuch").text
        assert viewer.get("/changes?before=nonsense").status_code == 400
        assert viewer.get("/changes?nosuch=1").status_code == 400
