"""What the panels show, as events change it; and how it is painted, without a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operator_lab.demo import CHAPTERS, Begun, Count, Look
from operator_lab.tui.panels import (
    Alarm,
    ApprovalRequest,
    Judged,
    Stage,
    Traffic,
    bars,
    cluster_text,
    fold_line,
    hypotheses_text,
    look_style,
    steps_text,
    traffic_text,
    verdicts_text,
)
from operator_lab.tui.recorder import Recorder
from operator_protocols.domain.diagnosis import RankedHypothesis
from operator_protocols.errors import UsageError
from tests.lab.tui.scenes import HOSTILE, approval, ending, entry, picture, story, verdict


def _stage_after(*told: object) -> Stage:
    stage = Stage(fault="node_kill", sentence="One node is killed.")
    for one in told:
        stage.take(one)  # type: ignore[arg-type]
    return stage


def test_the_whole_story_ends_where_it_should() -> None:
    stage = _stage_after(Begun(1, ready=True), Count(3), Count(0), *story(), ending())
    assert (stage.look, stage.alarm) == (Look.NORMAL, Alarm.CALM)
    assert stage.action == "restart_node(target=node-2)"
    assert stage.hypotheses[0] == RankedHypothesis("process_dead", "node-2", 0.899, 0.422)
    assert [one.outcome for one in stage.verdicts] == ["exit 0", "exit 0"]
    assert stage.verdicts[-1] == Judged("REVIEW", "medium", "restart_node(target=node-2)", "exit 0")
    assert stage.reached == 6
    assert stage.count is None
    for chapter in CHAPTERS[2:]:
        for step in chapter.steps:
            assert any(kind in stage.done for kind in step.kinds), step


def test_a_step_is_done_only_when_it_has_happened() -> None:
    stage = _stage_after(*story()[:9])
    stage.shown = 5
    assert "✓ 1." in steps_text(stage.chapter, stage.done).plain
    assert "✓ 3." not in steps_text(stage.chapter, stage.done).plain
    assert "✓ 4." not in steps_text(stage.chapter, stage.done).plain


def test_a_request_is_kept_until_it_is_answered() -> None:
    stage = _stage_after(verdict(), approval())
    assert stage.request == ApprovalRequest(
        id="approval-1",
        command="restart_node(target=node-2)",
        cwd="/",
        target="node-2",
        risk="medium",
        why="its process is gone",
        expected="it answers again",
    )
    answered = _stage_after(
        verdict(), approval(), entry("approval_decided", state="rejected", decided_by="me")
    )
    assert answered.request is None
    assert answered.verdicts[-1].outcome == "rejected"


def test_what_makes_no_sense_is_passed_over() -> None:
    stage = _stage_after(
        entry("verdict"),
        entry("tool_result", result="nothing"),
        entry("approval_requested", approval=None),
        entry("reasoning"),
    )
    assert stage.request is None
    assert stage.hypotheses == ()


def test_the_usual_is_the_mean_of_the_first_five_and_thirty_are_kept() -> None:
    few, traffic = Traffic(), Traffic()
    for one in (few, traffic):
        one.take([(1.0, 10.0), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0)])
    assert few.baseline is None
    assert not few.is_degraded
    traffic.take([(4.0, 999.0), (5.0, 50.0)])
    assert (traffic.baseline, few.baseline) == (30.0, None)
    traffic.take([(float(at), 15.0) for at in range(6, 60)])
    at_half = traffic.is_degraded
    assert len(traffic.samples) == 30
    traffic.take([(60.0, 14.9)])
    assert (at_half, traffic.is_degraded) == (False, True), "half is not less than half"
    low = traffic_text(traffic, (90, 100), 60, 4)
    assert "DEGRADED" in low.plain
    assert "90.0% answered" in low.plain
    reds = [span for span in low.spans if str(span.style) == "red"]
    assert len(reds) == 3, "one sample of thirty, in each of three rows"


def test_bars_are_as_high_as_they_should_be() -> None:
    assert bars([0, 4, 8], 1, top=8) == [" ▄█"]
    assert bars([16, 8, 2], 2, top=16) == ["█  ", "██▂"]
    assert bars([0, 0], 1) == ["  "]


@pytest.mark.parametrize(("width", "height"), [(30, 4), (56, 9), (20, 2), (8, 1)])
def test_every_node_has_its_mark_in_whatever_room_there_is(width: int, height: int) -> None:
    told = picture(down=("node-2",), broken={"node-2": ("node_down",)})
    rows = cluster_text(told.targets, told.broken, width, height).plain.splitlines()
    text = "\n".join(rows)
    assert (text.count("●"), text.count("✖")) == (4, 1)
    assert len(rows) <= height
    assert look_style(told.look) != look_style(Look.INJECTING)


def test_rows_are_cut_and_say_how_it_ended() -> None:
    long = Judged("SAFE", "low", "tail " + "x" * 500, "exit 0")
    (row,) = verdicts_text([long], 40, 5).plain.splitlines()
    assert len(row) == 40
    assert row.endswith("… -> exit 0")
    rows = [RankedHypothesis(f"cause_{at}", "a", at / 100) for at in range(9)]
    text = hypotheses_text(rows, "diagnosis", 60, 2).plain.splitlines()
    assert [line.split()[0] for line in text] == ["8.0", "7.0", "diagnosis"]


def test_a_line_is_folded_into_its_panel_whatever_it_holds() -> None:
    for line in HOSTILE:
        rows = fold_line(line, 30)
        assert len(rows) < 100
        assert all(row.isprintable() for row in rows)
        assert all(len(row) <= 30 for row in rows)
    assert fold_line("a short one", 30) == ["a short one"]
    assert fold_line("words that must be folded", 12) == [
        "words that",
        "  must be",
        "  folded",
    ]
    assert "".join(fold_line("漢" * 20, 10)).count("漢") == 20


def test_a_recording_can_be_played_and_read(tmp_path: Path) -> None:
    now = iter([0.0, 0.5, 1.25, 2.0])
    recorder = Recorder(tmp_path / "a.cast", title="t", size=(80, 24), now=lambda: next(now))
    recorder.output("\x1b[31mred\r\n")
    recorder.output("")
    recorder.resize(80, 24)
    recorder.resize(100, 30)
    recorder.output("ü")
    recorder.line("one line")
    recorder.close()
    head, *events = [json.loads(line) for line in recorder.path.read_text().splitlines()]
    assert {name: head[name] for name in ("version", "width", "height", "title")} == {
        "version": 2,
        "width": 80,
        "height": 24,
        "title": "t",
    }
    assert events == [[0.5, "o", "\x1b[31mred\r\n"], [1.25, "r", "100x30"], [2.0, "o", "ü"]]
    assert recorder.transcript_path.read_text() == "one line\n"
    assert recorder.path.stat().st_mode & 0o077 == 0


def test_a_recording_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"cannot be written to .*b\.txt"):
        Recorder(tmp_path / "b.cast", title="")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.txt"]
    assert (tmp_path / "b.txt").read_text() == "mine"
    with pytest.raises(UsageError, match="No such file"):
        Recorder(tmp_path / "none" / "c.cast", title="")
