"""The demo on a terminal: five panels, and a viewer who turns the pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.driver import Driver
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Digits, Static

from operator_lab.demo import CHAPTERS, Ending, Event, Part, Said, Told, name_chapter
from operator_lab.tui.panels import (
    Alarm,
    Stage,
    cluster_text,
    fold_line,
    hypotheses_text,
    look_style,
    steps_text,
    traffic_text,
    verdicts_text,
)
from operator_lab.tui.screens import AskScreen, HelpScreen, ReportScreen
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.tui.lines import Lines

__all__ = ["Cues", "DemoApp", "Script"]

PAINT_S = 0.1
# How long a chapter stays without a key press, and the report at the end.
PAGE_S = 2.0
REPORT_S = 6.0
MONITOR_LINES_MAX, AGENT_LINES_MAX = 500, 1000
ROOMY_ROWS = 32
_ALARMS = {Alarm.CALM: "calm", Alarm.WARY: "wary", Alarm.DETECTED: "detected"}


class Cues:
    """Where the play waits until its viewer goes on."""

    def __init__(self) -> None:
        self.given = 1
        self._changed = asyncio.Event()

    async def cue(self, chapter: int) -> None:
        """Wait until this chapter may begin."""
        while self.given < chapter:
            self._changed.clear()
            await self._changed.wait()

    def give(self, chapter: int) -> None:
        """This chapter may begin."""
        self.given = max(self.given, chapter)
        self._changed.set()


class Drawn(Widget):
    """A panel that is drawn again for every size."""

    def __init__(self, draw: Callable[[int, int], Text], *, id: str) -> None:
        super().__init__(id=id)
        self._draw = draw

    def render(self) -> Text:
        """As it is now."""
        return self._draw(self.content_size.width, self.content_size.height)


@dataclass(frozen=True, slots=True)
class Script:
    """What the app is given: the play, and what it can ask of the rest of the world."""

    subject: str
    fault: str
    sentence: str
    feed: AsyncIterable[Told]
    cues: Cues
    answer: Callable[[str, bool], Awaitable[str]]
    report: Callable[[Ending], str]
    stop: Callable[[], None]
    note: Callable[[Event], None] = lambda event: None
    resize: Callable[[int, int], None] = lambda width, height: None
    auto: bool = False
    story: Mapping[str, str] = field(default_factory=dict)


class DemoApp(App[Ending | None]):
    """Shows what the play tells. It decides nothing but which page is open."""

    AUTO_FOCUS = None
    ENABLE_COMMAND_PALETTE = False
    TITLE = "Operator demo"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,enter,right", "advance", "Go on", priority=True),
        Binding("b,left", "reread", "Back"),
        Binding("a", "ask", "Answer"),
        Binding("r", "report", "Report"),
        Binding("question_mark", "help", "Help"),
        Binding("q", "leave", "Quit"),
        Binding("ctrl+c,ctrl+q", "stop", "Stop", priority=True, system=True),
    ]
    CSS = """
    Screen { layout: vertical; background: $background; }
    #head { height: 1; background: $primary-darken-2; color: $text; padding: 0 1; }
    #foot { height: 1; background: $panel; color: $text-muted; padding: 0 1; }
    #top { height: 6; }
    #middle { height: 1fr; }
    #cluster, #workload, #monitor, #agent, #narration {
        border: round cyan; padding: 0 1; border-title-style: bold;
    }
    #cluster, #workload { height: 1fr; }
    #cluster { width: 1fr; border: round green; }
    #cluster.injecting { border: heavy red; }
    #cluster.recovering { border: round yellow; }
    #workload { width: 1fr; border: round green; }
    #workload.degraded { border: heavy red; }
    #monitor { width: 4fr; }
    #monitor.wary { border: round yellow; }
    #monitor.detected { border: heavy red; border-title-style: bold reverse; }
    #agent { width: 5fr; border: round dodgerblue; }
    #hypotheses, #verdicts { height: auto; }
    #hypotheses.some, #verdicts.some { border-bottom: dashed $panel-lighten-2; }
    #narration { height: 7; border: round $primary-lighten-2; }
    #story { width: 1fr; padding-right: 2; }
    #steps { width: 1fr; }
    #count { width: 1fr; display: none; color: red; text-style: bold; }
    #narration.counting #count { display: block; }
    #narration.counting #steps { display: none; }
    .-roomy #top { height: 11; }
    .-roomy #narration { height: 8; }
    ModalScreen { align: center middle; background: $background 60%; }
    .box { width: 76; max-width: 95%; height: auto; max-height: 90%; padding: 1 2;
           border: heavy cyan; background: $surface; border-title-style: bold; }
    .box.tall { width: 110; height: 90%; }
    """

    def __init__(self, script: Script, *, driver_class: type[Driver] | None = None) -> None:
        super().__init__(driver_class=driver_class)
        self.script = script
        self.stage = Stage(fault=script.fault, sentence=script.sentence, story=script.story)
        self._hint = ""
        self._is_stale = True
        self._turned_at = 0.0

    def compose(self) -> ComposeResult:
        """Five panels between a head and a foot."""
        yield Static(id="head")
        with Horizontal(id="top"):
            yield Drawn(
                lambda width, height: cluster_text(
                    self.stage.targets, self.stage.broken, width, height
                ),
                id="cluster",
            )
            workload = Drawn(
                lambda width, height: traffic_text(
                    self.stage.traffic, self.stage.answered, width, height
                ),
                id="workload",
            )
            workload.border_title = "workload"
            yield workload
        with Horizontal(id="middle"):
            yield Lines(lines_max=MONITOR_LINES_MAX, id="monitor")
            with Vertical(id="agent") as agent:
                agent.border_title = "agent"
                yield Static(id="hypotheses")
                yield Static(id="verdicts")
                yield Lines(lines_max=AGENT_LINES_MAX, id="thoughts")
        with Horizontal(id="narration"):
            yield Static(id="story")
            yield Static(id="steps")
            yield Digits("", id="count")
        yield Static(id="foot")

    def on_mount(self) -> None:
        """Begin to listen and to paint."""
        self._turned_at = self._now()
        self._fit(self.size.height)
        self.set_interval(PAINT_S, self._tick)
        self._listen()

    def on_resize(self, event: Resize) -> None:
        """More rows for the panels where there is room."""
        self.script.resize(event.size.width, event.size.height)
        self._fit(event.size.height)

    def _fit(self, height: int) -> None:
        self.set_class(height >= ROOMY_ROWS, "-roomy")
        self.call_after_refresh(self._spoil)

    @property
    def _is_there(self) -> bool:
        """Whether the panels are there: who is leaving loses them before all else."""
        return bool(self.screen_stack) and self.screen_stack[0].display

    def _spoil(self) -> None:
        """What is painted no longer fits."""
        self._is_stale = True

    @work
    async def _listen(self) -> None:
        async for event in self.script.feed:
            if not self._is_there:
                continue
            if isinstance(event, Said):
                panel = "#monitor" if event.part is Part.MONITOR else "#thoughts"
                lines = self.screen_stack[0].query_one(panel, Lines)
                width = lines.content_size.width
                lines.feed(
                    "".join(f"{row}\n" for line in event.lines for row in fold_line(line, width))
                )
                continue
            before = self.stage.reached
            self.stage.take(event)
            self._is_stale = True
            if isinstance(event, Event):
                self.script.note(event)
                if event.kind == "approval_requested":
                    self.action_ask()
                if event.kind == "approval_decided":
                    self._unask()
            # What the viewer asked for is shown at once; what comes by itself waits for them.
            if before < self.stage.reached <= 3:
                self._turn(self.stage.reached)
            if isinstance(event, Ending):
                self._unask()

    def _tick(self) -> None:
        for screen in self.screen_stack:
            if screen.size != self.size:
                screen.post_message(Resize(self.size, self.size))
        if self.script.auto:
            stage, shown_s = self.stage, self._now() - self._turned_at
            if stage.shown < stage.reached and shown_s >= PAGE_S:
                self._turn(stage.shown + 1)
            elif stage.waits_for_viewer and shown_s >= PAGE_S:
                self.script.cues.give(stage.shown + 1)
            elif stage.ending is not None and stage.shown == len(CHAPTERS) and shown_s >= REPORT_S:
                self.action_leave()
        # Nothing is there to be painted before the first moment, and after the last one.
        if self._is_stale and self._is_there and self.screen_stack[0].query("#foot"):
            self._is_stale = False
            self._paint()

    def action_advance(self) -> None:
        """The next page, or the next step of the play where it waits for the viewer."""
        if isinstance(self.screen, HelpScreen | ReportScreen):
            self.screen.dismiss()
            return
        if isinstance(self.screen, AskScreen):
            return
        stage = self.stage
        if stage.shown < stage.reached:
            self._turn(stage.shown + 1)
        elif stage.waits_for_viewer:
            self._hint = ""
            self.script.cues.give(stage.shown + 1)
        elif stage.ending is None:
            self._hint = "still running: please wait"
        self._is_stale = True

    def action_reread(self) -> None:
        """The page before, to read it again."""
        if self.stage.shown > 1:
            self._turn(self.stage.shown - 1, report=False)

    def action_help(self) -> None:
        """The keys."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_report(self) -> None:
        """The incident report, once the play has ended."""
        if self.stage.ending is not None and not isinstance(self.screen, ReportScreen):
            self.push_screen(ReportScreen(self.script.report(self.stage.ending)))

    def action_ask(self) -> None:
        """Show the question that waits, if there is one."""

        def take_answer(yes: bool | None) -> None:
            request = self.stage.request
            if yes is not None and request is not None:
                self._answer(request.id, yes)

        request = self.stage.request
        if request is not None and not isinstance(self.screen, AskScreen):
            self.push_screen(AskScreen(request), take_answer)

    def action_leave(self) -> None:
        """Quit: with the ending, or before there is one."""
        self.exit(self.stage.ending)

    def action_stop(self) -> None:
        """Ctrl-C, as it would be without us."""
        self.script.stop()

    @work
    async def _answer(self, approval: str, yes: bool) -> None:
        self._hint = await self.script.answer(approval, yes)
        self._is_stale = True

    def _unask(self) -> None:
        """Close a question that was answered elsewhere."""
        if isinstance(self.screen, AskScreen):
            self.screen.dismiss(None)

    def _turn(self, page: int, *, report: bool = True) -> None:
        self.stage.shown = page
        self._turned_at = self._now()
        self._hint = ""
        self._is_stale = True
        if report and page == len(CHAPTERS) and self.stage.ending is not None:
            self.action_report()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _paint(self) -> None:
        stage = self.stage
        self._paint_head()
        base = self.screen_stack[0]
        cluster, workload = base.query_one("#cluster"), base.query_one("#workload")
        for look in ("injecting", "recovering"):
            cluster.set_class(stage.look.value == look, look)
        cluster.border_title = Content(f"cluster · {stage.look.value}")
        workload.set_class(stage.traffic.is_degraded, "degraded")
        cluster.refresh()
        workload.refresh()
        monitor = base.query_one("#monitor", Lines)
        for alarm, name in _ALARMS.items():
            monitor.set_class(stage.alarm is alarm, name)
        monitor.border_title = Content(f"monitor · {stage.alarm.value}")
        roomy = self.size.height >= ROOMY_ROWS
        hypotheses, verdicts = self._base("#hypotheses"), self._base("#verdicts")
        hypotheses.set_class(bool(stage.hypotheses) and roomy, "some")
        verdicts.set_class(bool(stage.verdicts) and roomy, "some")
        hypotheses.display, verdicts.display = bool(stage.hypotheses), bool(stage.verdicts)
        # Before the first row the panels are empty, and as wide as all around them.
        width = self.screen_stack[0].query_one("#thoughts").size.width
        limit = 4 if roomy else 2
        diagnosis = stage.diagnosis if roomy else ""
        hypotheses.update(hypotheses_text(stage.hypotheses, diagnosis, width, limit))
        verdicts.update(verdicts_text(stage.verdicts, width, 5 if roomy else 2))
        title = f"agent · {clean(stage.action)}" if stage.action else "agent"
        # As content, because in a plain text brackets would be obeyed.
        self.screen_stack[0].query_one("#agent").border_title = Content(title)
        narration = self.screen_stack[0].query_one("#narration")
        counting = stage.count is not None
        narration.set_class(counting, "counting")
        self.screen_stack[0].query_one("#count", Digits).update(str(stage.count or ""))
        chapter = stage.chapter
        narration.border_title = Content(f"{stage.place} {clean(chapter.title)}")
        narration.border_subtitle = Content(clean(self._hint or self._next()))
        text = Text(chapter.text)
        if counting:
            text = Text(f"Fault in {stage.count} ...", "bold red")
        self._base("#story").update(text)
        self._base("#steps").update(steps_text(chapter, stage.done))

    def _base(self, name: str) -> Static:
        return self.screen_stack[0].query_one(name, Static)

    def _paint_head(self) -> None:
        stage, script = self.stage, self.script
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(" Operator ", "bold reverse")
        head.append(f" {clean(script.subject)} · {clean(script.fault)} · ")
        head.append(stage.look.value, look_style(stage.look))
        if stage.ending is not None:
            good = stage.ending.proven
            word = "RESOLVED with a proof" if good else "NOT RESOLVED"
            head.append(f" · {word}", "bold green" if good else "bold red")
        self._base("#head").update(head)
        foot = Text(no_wrap=True, overflow="ellipsis")
        keys = [("SPACE", "continue"), ("b", "back"), ("?", "help"), ("q", "quit")]
        if stage.request is not None:
            keys.insert(0, ("a", "APPROVE OR REJECT"))
        if stage.ending is not None:
            keys.insert(1, ("r", "report"))
        for key, meaning in keys:
            foot.append(f" {key} ", "bold")
            foot.append(f"{meaning}  ")
        self._base("#foot").update(foot)

    def _next(self) -> str:
        """What the key for going on would do."""
        stage = self.stage
        if stage.request is not None:
            return "approval required: press a"
        if stage.shown < stage.reached:
            return f"SPACE ▸ {name_chapter(stage.shown + 1, action=stage.action).title}"
        if stage.waits_for_viewer:
            return f"SPACE ▸ {name_chapter(stage.shown + 1, fault=stage.fault).title}"
        if stage.ending is not None:
            return "r the report · q quit"
        return "..."
