"""The demo's panels under the keys of a viewer, with a play that the test tells."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from textual.pilot import Pilot
from textual.widgets import Digits

from operator_lab.demo import Begun, Count, Ending, Look, Part
from operator_lab.tui.app import DemoApp
from operator_lab.tui.screens import AskScreen, HelpScreen, ReportScreen
from operator_sre.faces.tui.lines import Lines
from tests.lab.tui.scenes import (
    HOSTILE,
    Play,
    approval,
    ending,
    entry,
    picture,
    said,
    story,
    verdict,
)

SIZE = (120, 40)
SMALL = (80, 24)
WAITS_MAX = 100

Shown = Pilot[Ending | None]


async def until(pilot: Shown, condition: Callable[[], bool], what: str) -> None:
    """Let the app work until this is so."""
    for _ in range(WAITS_MAX):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError(f"never so: {what}")


def rows(app: DemoApp) -> list[str]:
    """What the terminal shows, row by row."""
    screen = app.screen_stack[-1]
    strips = screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def counts(count: Digits, left_s: int) -> bool:
    """Whether so many seconds are left."""
    return count.value == str(left_s)


def is_high(app: DemoApp, height: int) -> bool:
    """Whether so many rows are painted."""
    return len(rows(app)) == height


def fits(app: DemoApp, height: int) -> bool:
    """Whether the panels have been laid out for a terminal of so many rows."""
    return app.query_one("#narration").size.height == (6 if height > 30 else 5)


def shows(app: DemoApp, text: str) -> bool:
    """Whether it is on the terminal now."""
    return any(text in row for row in rows(app))


@pytest.mark.asyncio
async def test_each_key_for_going_on_turns_a_page_and_back_turns_it_again() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: shows(app, "[1/7] A real cluster"), "the first chapter")
        await pilot.press("space")
        assert app.stage.shown == 1, "a cluster that is not up yet waits for nobody's key"
        play.tell(picture(), Begun(1, ready=True))
        await until(pilot, lambda: app.stage.waits_for_viewer, "ready for the first key")
        await pilot.press("space")
        play.tell(Begun(2), Begun(2, ready=True))
        await until(pilot, lambda: shows(app, "[2/7] Monitoring"), "the second chapter")
        await pilot.press("enter")
        play.tell(Begun(3), *story())
        await until(pilot, lambda: app.stage.reached == 6, "all that followed")
        assert app.stage.shown == 3, "what comes by itself waits to be read"
        await pilot.press("right")
        await until(pilot, lambda: shows(app, "[4/7] Detection"), "the fourth chapter")
        await pilot.press("space")
        title = "[5/7] AI remediation: restart_node(target=node-2)"
        await until(pilot, lambda: shows(app, title), "the chapter with its action")
        await pilot.press("b")
        await until(pilot, lambda: shows(app, "[4/7] Detection"), "a page back")
        await pilot.press("space", "space", "space")
        await until(pilot, lambda: shows(app, "[6/7] Proof"), "and on again")
        assert app.stage.shown == 6, "there is no page that has not been reached"


@pytest.mark.asyncio
async def test_the_play_waits_for_its_cues() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(Begun(1, ready=True))
        await until(pilot, lambda: app.stage.waits_for_viewer, "ready")
        assert play.cues.given == 1
        await pilot.press("space")
        assert play.cues.given == 2
        await pilot.press("space", "space")
        assert play.cues.given == 2, "an impatient hand skips nothing"


@pytest.mark.asyncio
async def test_it_counts_down_before_the_fault() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(Begun(3))
        count = app.query_one("#count", Digits)
        for left_s in (3, 2, 1):
            play.tell(Count(left_s))
            await until(pilot, partial(counts, count, left_s), f"{left_s}")
            assert count.display
            assert shows(app, f"Fault in {left_s}")
        play.tell(Count(0))
        await until(pilot, lambda: not count.display, "the end of the countdown")


@pytest.mark.asyncio
async def test_cluster_and_monitor_say_by_word_and_by_border_how_it_stands() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(picture())
        await until(pilot, lambda: shows(app, "cluster · normal"), "normal")
        await until(pilot, lambda: sum(row.count("●") for row in rows(app)) == 5, "five dots")
        monitor, cluster = app.query_one("#monitor"), app.query_one("#cluster")
        calm = monitor.styles.border_top
        play.tell(picture(Look.INJECTING, down=("node-2",)))
        await until(pilot, lambda: shows(app, "cluster · injecting"), "injecting")
        assert shows(app, "✖ node-2")
        assert shows(app, "monitor · something has changed")
        wary = monitor.styles.border_top
        play.tell(
            picture(Look.RECOVERING, down=("node-2",), broken={"node-2": ("node_down",)}),
            entry("ticket_opened", step="file"),
        )
        await until(pilot, lambda: shows(app, "monitor · DETECTED"), "detected")
        assert shows(app, "exited: node_down")
        detected = monitor.styles.border_top
        colours = [calm[1].hex, wary[1].hex, detected[1].hex]
        assert colours == ["#00FFFF", "#FFFF00", "#FF0000"]
        assert detected[0] == "heavy"
        assert cluster.has_class("recovering")
        play.tell(picture(), entry("ticket_resolved", step="close"))
        await until(pilot, lambda: shows(app, "monitor · watching"), "calm again")
        assert shows(app, "cluster · normal")


@pytest.mark.asyncio
async def test_traffic_below_half_of_the_usual_is_said_and_reddens() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(picture(ops=(30, 30, 30, 30, 30, 16)))
        await until(pilot, lambda: shows(app, "16 ops/s"), "more than half")
        assert not app.query_one("#workload").has_class("degraded")
        play.tell(picture(ops=(14,), began=20.0))
        await until(pilot, lambda: shows(app, "DEGRADED"), "less than half")
        assert app.query_one("#workload").has_class("degraded")
        play.tell(picture(ops=(29,), began=21.0))
        await until(pilot, lambda: shows(app, "29 ops/s"), "well again")
        assert not app.query_one("#workload").has_class("degraded")


@pytest.mark.asyncio
async def test_hypotheses_and_verdicts_are_shown_as_they_come() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(*story()[:8])
        await until(pilot, lambda: shows(app, "process_dead at node-2"), "a hypothesis")
        assert shows(app, "89.9 %")
        assert shows(app, "SAFE    low      check_port(target=node-2)")
        play.tell(*story()[8:])
        await until(pilot, lambda: shows(app, "diagnosis, 99.1% sure"), "the diagnosis")
        done = "REVIEW  medium   restart_node(target=node-2) -> exit 0"
        await until(pilot, lambda: shows(app, done), "the verdict and what became of it")


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.asyncio
async def test_the_viewer_sees_the_exact_command_and_answers_by_key(yes: bool) -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(verdict(), approval())
        await until(pilot, lambda: shows(app, "Approve this action?"), "the question")
        for text in ("restart_node(target=node-2)", "its process is gone", "medium"):
            assert shows(app, text)
        await pilot.press("space")
        assert play.said_yes == [], "going on is no answer"
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, AskScreen), "later")
        assert play.said_yes == []
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, AskScreen), "the question again")
        await pilot.press("a" if yes else "r")
        await until(pilot, lambda: bool(play.said_yes), "an answer")
        assert play.said_yes == [("approval-1", yes)]


@pytest.mark.asyncio
async def test_a_question_that_somebody_else_answered_goes_away() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(verdict(), approval())
        await until(pilot, lambda: isinstance(app.screen, AskScreen), "the question")
        play.tell(entry("approval_decided", step="decide", state="approved", decided_by="me"))
        await until(pilot, lambda: not isinstance(app.screen, AskScreen), "no question")
        await until(pilot, lambda: shows(app, "-> approved"), "what was answered")
        assert play.said_yes == []


@pytest.mark.asyncio
async def test_help_and_report_lie_over_the_panels_for_a_while() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: shows(app, "quit; nothing is left behind"), "the keys")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape", "r")
        assert not isinstance(app.screen, ReportScreen), "there is no report yet"
        play.tell(*story(), Begun(7), ending())
        await until(pilot, lambda: app.stage.ending is not None, "the end")
        for _ in range(6):
            await pilot.press("space")
        await until(pilot, lambda: shows(app, "Report of node-2"), "the report")
        await pilot.press("escape")
        await until(pilot, lambda: shows(app, "RESOLVED with a proof"), "the verdict")
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ReportScreen), "the report again")


@pytest.mark.parametrize("proven", [True, False])
@pytest.mark.asyncio
async def test_q_leaves_with_the_ending(proven: bool) -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(*story(), Begun(7), ending(proven=proven))
        await until(pilot, lambda: app.stage.ending is not None, "the end")
        await until(pilot, lambda: shows(app, "NOT RESOLVED") is not proven, "the verdict")
        await pilot.press("q")
    assert app.return_value is not None
    assert app.return_value.proven is proven


@pytest.mark.asyncio
async def test_q_before_the_end_leaves_without_one_and_ctrl_c_stops_us() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+c")
        assert play.stopped == 1
        await pilot.press("question_mark", "ctrl+c")
        assert play.stopped == 2, "also from under the help"
        await pilot.press("escape", "q")
    assert app.return_value is None


@pytest.mark.asyncio
async def test_left_alone_it_turns_its_pages_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGE_S", "REPORT_S"):
        monkeypatch.setattr(f"operator_lab.tui.app.{name}", 0.01)
    play = Play(auto=True)
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(Begun(1, ready=True))
        await until(pilot, lambda: play.cues.given == 2, "the watch")
        play.tell(Begun(2), Begun(2, ready=True))
        await until(pilot, lambda: play.cues.given == 3, "the fault")
        play.tell(Begun(3), *story(), Begun(7), ending())
        await until(pilot, lambda: app.return_value is not None, "its end")
    assert [event.kind for event in play.noted][-1] == "ticket_resolved"


def _settles(app: DemoApp, seen: list[list[str]]) -> bool:
    """Whether it is what it was some looks ago."""
    seen.append(rows(app))
    return len(seen) > 5 and all(one == seen[-1] for one in seen[-5:])


@pytest.mark.asyncio
async def test_hostile_output_changes_nothing_but_its_own_panel() -> None:
    play = Play()
    app = play.app()
    async with app.run_test(size=SIZE) as pilot:
        play.tell(picture(), Begun(1, ready=True))
        await until(pilot, lambda: shows(app, "● node-3"), "the cluster")
        seen = [rows(app)]
        await until(pilot, lambda: _settles(app, seen), "a screen that stands still")
        title, before = app.title, rows(app)
        inside = app.query_one("#monitor").region
        play.tell(said(Part.MONITOR, *HOSTILE))
        monitor = app.query_one("#monitor", Lines)
        await until(pilot, lambda: "C1" in monitor.text, "what it said")
        await pilot.pause(0.2)
        after = rows(app)
        assert all(letter.isprintable() for row in after for letter in row)
        for y, (old, new) in enumerate(zip(before, after, strict=True)):
            if not inside.y < y < inside.bottom - 1:
                assert old == new
            else:
                assert old[inside.right :] == new[inside.right :]
        assert app.title == title
        assert "[/x] [bold red]markup[/]" in monitor.text.replace("\n", " ")
        assert len(monitor.text) < 20_000


@pytest.mark.asyncio
async def test_hostile_names_and_reasons_stay_text_in_every_panel() -> None:
    play = Play()
    app = play.app()
    hostile = HOSTILE[0] + HOSTILE[3]
    action = {"tool": "shell", "arguments": {"command": hostile}, "reasoning": hostile}
    async with app.run_test(size=SMALL) as pilot:
        play.tell(
            picture(broken={"node-1": (hostile,)}),
            entry(
                "reasoning",
                reasoning=hostile,
                hypotheses=[{"cause": "[/x]", "target": hostile, "probability": 0.42}],
            ),
            entry("verdict", level="review", risk=hostile, action=action),
            entry("diagnosis", hostile),
            Begun(5),
        )
        await until(pilot, lambda: app.stage.reached == 5, "all of it")
        for _ in range(5):
            await pilot.press("space")
        asked = {"id": "1", "risk": hostile, "action": action}
        play.tell(entry("approval_requested", approval=asked))
        await until(pilot, lambda: isinstance(app.screen, AskScreen), "the question")
        await until(pilot, lambda: shows(app, "[/x]"), "the words of the question")
        assert all(letter.isprintable() for row in rows(app) for letter in row)
        await pilot.press("escape")
        await until(pilot, lambda: shows(app, "cluster · normal"), "the panels")
        assert all(letter.isprintable() for row in rows(app) for letter in row)


@pytest.mark.asyncio
async def test_it_fits_a_small_terminal_and_follows_its_size() -> None:
    play = Play()
    app = play.app()
    panels = ("cluster", "workload", "monitor", "agent", "narration")
    async with app.run_test(size=SMALL) as pilot:
        play.tell(picture(ops=(30,) * 30), *story())
        await until(pilot, lambda: app.stage.reached == 6, "all of it")
        for width, height in (SMALL, SIZE, (200, 60), SMALL):
            await pilot.resize_terminal(width, height)
            await until(pilot, partial(is_high, app, height), "the size")
            await until(pilot, partial(fits, app, height), "the layout")
            for name in panels:
                region = app.query_one(f"#{name}").region
                assert region.width > 10
                assert region.height > 4
                assert region.right <= width
                assert region.bottom <= height
            for text in ("● node-1", "● node-2", "● node-3", "[1/7]", " q quit"):
                await until(pilot, partial(shows, app, text), text)
