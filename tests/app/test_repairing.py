"""A wrong setting is looked at by a script in a box, and put right by a typed action."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Permit
from operator_sre.app.wiring import App
from operator_sre.controls import MACHINE
from tests.app.home import opened

pytestmark = pytest.mark.asyncio
PEOPLE = itertools.count(1)
SCRIPT = """
import json
settings = json.load(open("/inputs/settings.json"))
assert settings["limit"] < 1, "nothing is wrong"
settings["limit"] = 100
print(json.dumps(settings))
"""


async def _done(app: App, action: Action) -> Result:
    """The way of every action, each by somebody else: one who does much is asked at some point."""
    controls = app.controls(MACHINE)
    name = f"ada-{next(PEOPLE)}"
    proposed = await controls.complete(action)
    assert isinstance(proposed, Action), proposed
    verdict = controls.gate.judge(proposed)
    first = await controls.gate.permit(
        verdict, None, Actor(name, "user", f"{name}@here:1"), subject=MACHINE
    )
    if not isinstance(first, Permit):
        return first
    result, entry = await controls.executor.execute(first)
    assert entry is not None, result
    return result


def _script(text: str, inputs: Mapping[str, str]) -> Action:
    return Action("execute_script", {"language": "python", "text": text, "inputs": inputs})


async def test_a_script_finds_what_is_wrong_and_a_file_is_written_and_taken_back(
    tmp_path: Path,
) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"limit": 0, "name": "shop"}\n')
    (tmp_path / "policy.yaml").write_text(
        f"version: 1\npaths: {{write: ['{tmp_path}/*.json']}}\n"
        "approval: {high: auto, critical: auto}\n"
    )
    with opened(tmp_path, mode="execute", policy=str(tmp_path / "policy.yaml")) as app:
        read = await _done(app, Action("read_file", {"path": str(file)}))
        assert read.ok, read
        inputs = {"settings.json": read.stdout}
        computed = await _done(app, _script(SCRIPT, inputs))
        assert computed.ok, computed
        fixed = {"path": str(file), "text": computed.stdout}
        written = await _done(app, Action("write_file", fixed))
        assert written.ok, written
        assert json.loads(file.read_text()) == {"limit": 100, "name": "shop"}
        assert "-" in written.stdout
        assert "+" in written.stdout
        assert written.undo is not None
        again = await _done(app, _script(SCRIPT, {"settings.json": file.read_text()}))
        assert again.exit_code == 1
        assert "nothing is wrong" in again.stderr
        undone = await _done(app, written.undo)
        assert undone.ok, undone
        assert file.read_text() == '{"limit": 0, "name": "shop"}\n'
        calls = [one for one in app.store.entries.after(0, limit=99) if one.kind is Kind.TOOL_CALL]
        assert [one.payload["action"]["tool"] for one in calls] == [
            *("read_file", "execute_script", "write_file", "execute_script", "restore_file"),
        ]


async def test_a_dangerous_script_never_reaches_the_box(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("version: 1\napproval: {critical: auto}\n")
    with opened(tmp_path, mode="execute", policy=str(tmp_path / "policy.yaml")) as app:
        for text, layer in (
            ("import os; os.system('id')", "dangerous"),
            ("def f(:", "syntax"),
            ("x = 1\n" * 6000, "size"),
            ("password = 'hunter2hunter2'", "secrets"),
        ):
            refused = await app.controls(MACHINE).complete(_script(text, {}))
            assert isinstance(refused, Result), "nobody is asked about it"
            assert f"{layer}: " in refused.stderr
