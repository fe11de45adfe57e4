"""`operator report`: on stdout, in a file, for people and for programs."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from operator_protocols.domain.run import Answer, Escalate
from tests.app.answering import FOUND, shopkeeper
from tests.e2e.home import Home

GIVE_UP = Answer("enough", (FOUND, Escalate("I cannot go on.")))


@pytest.fixture
def known(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with one ticket, which a mind has given up."""
    with shopkeeper(tmp_path, monkeypatch, GIVE_UP) as keeper:
        asyncio.run(keeper.carry())
    (tmp_path / "operator.toml").write_text("")
    return home


def test_a_report_is_markdown_a_page_or_a_document(known: Home) -> None:
    told = known.run("report", "1")
    assert (told.code, told.err) == (0, "")
    headline = FOUND.diagnosis.summary.rstrip(".")
    assert told.out.startswith(f"# Incident 1: {headline}\n")
    assert "The ticket was escalated: I cannot go on." in told.out
    page = known.run("report", "1", "--format", "html")
    assert page.out.startswith("<!doctype html>\n")
    assert page.out.endswith("</html>\n")
    report = known.ask("report", "1")["report"]
    assert (report["ticket"], report["state"]) == (1, "escalated")
    assert report["understandings"][0]["diagnosis"]["cause"] == "process_dead"
    assert known.run("report", "1", "--format", "json").json["report"]["ticket"] == 1


def test_a_file_is_written_whole_and_in_the_place_of_the_old_one(known: Home) -> None:
    file = known.cwd / "incident.html"
    file.write_text("old")
    done = known.run("report", "1", "--format", "html", "--output", "incident.html")
    assert (done.code, done.out) == (0, "The report of ticket 1 is in incident.html.\n")
    assert file.read_text().startswith("<!doctype html>")
    assert file.stat().st_mode & 0o777 == 0o600
    both = known.run("report", "1", "--format", "json", "--output", "incident.json", "--json")
    written = json.loads((known.cwd / "incident.json").read_text())
    assert written == both.json
    assert not list(known.cwd.glob(".incident*"))


def test_what_cannot_be_written_or_is_not_there_is_a_sentence(known: Home) -> None:
    (known.cwd / "pipe").unlink(missing_ok=True)
    os.mkfifo(known.cwd / "pipe")
    for file in ("no/such/folder", str(known.cwd), "pipe", "/dev/null"):
        done = known.run("report", "1", "--output", file)
        assert done.code == 2, done
        assert done.err.startswith(f"operator: The report cannot be written to {file!r}: ")
        assert done.err.count("\n") == 1
    assert Path(os.devnull).is_char_device()
    assert known.run("report", "9").err == (
        "operator: There is no ticket 9. List them with: operator tickets list\n"
    )
