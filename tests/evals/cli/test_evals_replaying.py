"""`operator eval record`, `replay` and `cases`, typed as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operator_evals.cases import cases_in, recording_of
from operator_evals.cli.replays import cases, record, register, replay
from operator_evals.recording import write_recording
from tests.e2e.home import Home
from tests.e2e.warm import Done
from tests.every import expect_each
from tests.faces.cli.sentences import Bad, one_sentence

HOSTILE = "Some pages \x1b[31mfail\x1b[0m."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two cases."""
    root = tmp_path / "benchmark"
    for number, cause in enumerate(("no_account", "no_quota")):
        place = root / "shop" / str(number)
        place.mkdir(parents=True)
        result = {"fault_object": "app/ads", "root_cause": cause}
        told = {"namespace": "shop", "query": HOSTILE, "result": result}
        (place / "metadata.json").write_text(json.dumps(told))
        (place / "tool_cache.json").write_text('{"GetAppYAML:{\\"app_name\\":\\"ads\\"}": "x"}')
    return root


def test_cases_and_recordings_are_worked_on(home: Home, folder: Path, tmp_path: Path) -> None:
    done = home.run("eval", "cases", str(folder), "--model", "oracle")
    assert done.code == 0, done
    assert "right  shop/0  no_account at ads" in done.out
    assert "both                2      2   100%   34% to 100%" in done.out
    told = home.ask("eval", "cases", str(folder), "--model", "none", "--limit", "1")
    assert (told["tally"]["cause_right"]["count"], len(told["cases"])) == (0, 1)
    (case,) = cases_in(folder, limit=1)
    file = tmp_path / "case.json"
    write_recording(recording_of(case, ("no_account", "no_quota")), file)
    shown = home.run("eval", "replay", str(file), "--model", "oracle")
    assert shown.code == 0, shown
    assert "diagnosis no_account at ads" in shown.out
    assert "\x1b" not in shown.out
    replayed = home.ask("eval", "replay", str(file))["replayed"]
    assert (replayed["model"], replayed["score"]["valid"]) == ("reasoner", True)


def test_what_makes_no_sense_is_one_sentence(home: Home, folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"schema": "operator-recording/1", "sub')
    bad = [
        Bad("record", 2, "No output file given"),
        Bad("record -o x.json", 2, "Name a trial"),
        Bad("record campaign -o x.json", 2, "Name a trial"),
        Bad("record c k -o x.json --cause x", 2, "remove --cause"),
        Bad("record c k -o x.json", 2, "no campaign yet"),
        Bad("record --ticket 9 -o x.json", 2, "no ticket 9"),
        Bad(f"replay {broken}", 2, "is damaged"),
        Bad("replay nowhere.json", 2, "no recording"),
        Bad("cases nowhere", 2, "no folder"),
        Bad(f"cases {folder} --model nobody", 2, "not a configured model"),
    ]
    expect_each([(one,) for one in bad], lambda one: one_sentence(_typed(home, one.line), one))


def _typed(home: Home, line: str) -> Done:
    return home.run("eval", *line.split())


def test_the_verbs_are_the_functions() -> None:
    import typer

    noun = typer.Typer()
    register(noun)
    assert [one.callback for one in noun.registered_commands] == [record, replay, cases]
