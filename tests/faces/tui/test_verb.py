"""`operator tui` without a terminal says so in one sentence, with the next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_sre.faces.cli.tui import tui
from tests.faces.cli.tree import run_here


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPERATOR_HOME", str(tmp_path / "home"))


def test_without_a_terminal_it_is_a_sentence_with_the_next_step(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = run_here(capsys, ["tui"])
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert "needs a terminal" in said.err
    assert "operator health" in said.err
    assert not (tmp_path / "home").exists()
    assert "terminal console" in (tui.__doc__ or "")


def test_for_programs_it_is_an_error_that_names_what_there_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = run_here(capsys, ["tui", "--json"])
    assert said.code == 2
    assert "operator health --json" in said.json["error"]["message"]
