"""The demo's chapters and choices; that it really plays is told in tests/e2e."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_lab.crew import crew_files
from operator_lab.demo import (
    CHAPTERS,
    Chapter,
    Cue,
    Event,
    Plan,
    Step,
    choose_fault,
    name_chapter,
    sentence_of,
    straight_on,
)
from operator_lab.demo.play import crew_programs
from operator_lab.demo.story import FAULT, REPORT, WATCH, chapter_of, report_text
from operator_protocols.domain.entry import Kind
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.story import Line
from operator_sre.app.wiring import open_app
from operator_sre.config import load_config
from tests.lab.tui.scenes import ending

TOML = """
[subjects.ratelimiter]
targets = [{name = "mine", kind = "node", port = 9}]

[models.local]
provider = "openai-compatible"
model = "qwen3:14b"
base_url = "http://127.0.0.1:11434/v1"
key_file = "local.key"
prices = { input = 5.0, output = 25.0 }
"""


def test_every_chapter_says_what_to_watch_for() -> None:
    assert len(CHAPTERS) == 7
    for chapter in CHAPTERS:
        assert isinstance(chapter, Chapter)
        assert chapter.title
        assert chapter.text.endswith(".")
        assert chapter.steps
        for step in chapter.steps:
            assert isinstance(step, Step)
            # So that each fits into its half of a narrow terminal.
            assert len(step.text) <= 32
            assert step.kinds


def test_titles_name_the_fault_and_the_action() -> None:
    assert name_chapter(3, fault="node_kill", sentence="One node is killed.").title.endswith(
        "node_kill"
    )
    assert name_chapter(3, fault="f", sentence="One node is killed.").text.startswith(
        "One node is killed"
    )
    assert name_chapter(5, action="restart_node(target=a)").title == (
        "AI remediation: restart_node(target=a)"
    )
    assert [name_chapter(number).title for number in range(1, 8)] == [one.title for one in CHAPTERS]


def test_the_ledger_opens_the_chapters() -> None:
    def opened(kind: str) -> int | None:
        return chapter_of(Event(Line("", ""), 1, kind))

    assert opened(Kind.TICKET_OPENED) == 4
    assert {opened(kind) for kind in (Kind.REASONING, Kind.DIAGNOSIS, Kind.VERDICT)} == {5}
    assert opened(Kind.PROOF) == 6
    assert opened(Kind.SUMMARY) is None


def test_a_fault_is_chosen_for_every_subject_with_a_rig() -> None:
    for subject in ("ratelimiter", "etcd", "postgres"):
        assert choose_fault(subject, None) == "node_kill"
    assert choose_fault("ratelimiter", "node_config") == "node_config"
    assert sentence_of(Plan("ratelimiter", "node_kill", ())) == "One node is killed."
    with pytest.raises(NotFoundError, match="has no fault 'nosuch'"):
        choose_fault("etcd", "nosuch")
    with pytest.raises(UsageError, match="'declarative' has no rig"):
        choose_fault("declarative", None)


def test_a_play_that_waits_for_nobody_takes_every_cue_at_once() -> None:
    cue: Cue = straight_on
    for chapter in (FAULT, REPORT, WATCH):
        waiting = cue(chapter).__await__()
        with pytest.raises(StopIteration):  # it ends where another would wait for the first time
            next(waiting)


def test_monitor_and_agent_get_the_demos_settings_and_nothing_of_the_viewers(
    tmp_path: Path,
) -> None:
    (tmp_path / "operator.toml").write_text(TOML)
    flags = {"home": str(tmp_path / "home"), "mode": "approve", "model": "scripted:answers.json"}
    config = load_config(flags=flags, environ={}, cwd=tmp_path)
    programs = crew_programs(config, "etcd", ["operator"])
    assert programs["monitor"][:5] == ("operator", "monitor", "run", "--subject", "etcd")
    agent = " ".join(programs["agent"])
    assert "agent start" in agent
    assert "--mode approve" in agent
    assert f"--model scripted:{Path('answers.json').absolute()}" in agent
    assert all(str(config.home) in words for words in programs.values())
    told = crew_files(config)["operator.toml"]
    (tmp_path / "crew").mkdir()
    (tmp_path / "crew" / "operator.toml").write_text(told)
    theirs = load_config(flags={}, environ={}, cwd=tmp_path / "crew")
    assert theirs.subjects == ()
    (model,) = [one for one in theirs.models if one.name == "local"]
    assert model.key_file == str(tmp_path / "local.key")
    assert model.prices is not None
    empty = crew_files(load_config(flags=flags, environ={}, cwd=tmp_path.parent))
    assert empty == {"operator.toml": ""}


def test_what_is_left_to_read_says_how_it_ended(tmp_path: Path) -> None:
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    with open_app(config) as app:
        nothing = replace(ending(proven=False), ticket=None)
        told = report_text(app, nothing)
    assert "NOT resolved" in told
    assert "time to detect: 1.5 s" in told
