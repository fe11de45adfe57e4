"""The demo's panels: what they show, which only events change, and how that looks.

No colour is needed.
"""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.text import Text

from operator_lab.app.rigs import TargetView
from operator_lab.demo import (
    CHAPTERS,
    Begun,
    Chapter,
    Count,
    Ending,
    Event,
    Look,
    Picture,
    Told,
    name_chapter,
)
from operator_protocols.domain.diagnosis import RankedHypothesis
from operator_sre.app.story import brief_of, command_of
from operator_sre.codec import from_json
from operator_sre.faces.terminal_text import clean

__all__ = [
    "Alarm",
    "ApprovalRequest",
    "Judged",
    "Stage",
    "Traffic",
    "bars",
    "cluster_text",
    "fold_line",
    "hypotheses_text",
    "look_style",
    "steps_text",
    "traffic_text",
    "verdicts_text",
]

SAMPLES_MAX = 30
BASELINE_SAMPLES = 5
DEGRADED_SHARE = 0.5
VERDICTS_MAX = 50
HYPOTHESES_MAX = 8


class Alarm(StrEnum):
    """How the monitor stands to what it sees."""

    CALM = "watching"
    WARY = "something has changed"
    DETECTED = "DETECTED"


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of the gate on an action, and the result."""

    level: str
    risk: str
    command: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request that waits for the viewer."""

    id: str
    command: str
    cwd: str
    target: str
    risk: str
    why: str
    expected: str


class Traffic:
    """Requests a second: the last samples, and the mean of the first as what is usual."""

    def __init__(self) -> None:
        self.samples: deque[float] = deque(maxlen=SAMPLES_MAX)
        self._first: list[float] = []
        self._last_at = 0.0

    def take(self, samples: Sequence[tuple[float, float]]) -> None:
        """Add the samples that are newer than the known ones."""
        for at, value in samples:
            if at <= self._last_at:
                continue
            self._last_at = at
            self.samples.append(value)
            if len(self._first) < BASELINE_SAMPLES:
                self._first.append(value)

    @property
    def baseline(self) -> float | None:
        """The mean of the first samples, once there are enough of them."""
        if len(self._first) < BASELINE_SAMPLES:
            return None
        return sum(self._first) / len(self._first)

    def is_low(self, value: float) -> bool:
        """Less than half of what is usual."""
        usual = self.baseline
        return usual is not None and value < DEGRADED_SHARE * usual

    @property
    def is_degraded(self) -> bool:
        """Whether the newest sample is low."""
        return bool(self.samples) and self.is_low(self.samples[-1])


@dataclass(slots=True)
class Stage:
    """Everything that is known of the play."""

    fault: str = ""
    sentence: str = ""
    story: Mapping[str, str] = field(default_factory=dict)
    look: Look = Look.NORMAL
    alarm: Alarm = Alarm.CALM
    targets: tuple[TargetView, ...] = ()
    broken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    answered: tuple[int, int] = (0, 0)
    hypotheses: tuple[RankedHypothesis, ...] = ()
    verdicts: deque[Judged] = field(default_factory=lambda: deque(maxlen=VERDICTS_MAX))
    diagnosis: str = ""
    action: str = ""
    request: ApprovalRequest | None = None
    reached: int = 1
    ready: int = 0
    shown: int = 1
    count: int | None = None
    done: set[str] = field(default_factory=set)
    ending: Ending | None = None

    def take(self, event: Told) -> None:
        """One thing happened."""
        match event:
            case Begun():
                self.reached = max(self.reached, event.chapter)
                if event.ready:
                    self.ready = max(self.ready, event.chapter)
            case Count():
                self.count = event.left_s or None
                if not event.left_s:
                    self.done.add("counted")
            case Picture():
                self.look, self.targets, self.broken = event.look, event.targets, event.broken
                if event.look is Look.INJECTING and self.alarm is Alarm.CALM:
                    self.alarm = Alarm.WARY
                if event.load is not None:
                    self.traffic.take(
                        [(sample.at, float(sample.ok)) for sample in event.load.samples]
                    )
                    self.answered = (event.load.ok, event.load.total)
                    self.done.add("traffic")
            case Event():
                self._event(event)
            case Ending():
                self.ending = event
                self.request = None
                self.done.add("ended")
            case _:
                return

    @property
    def chapter(self) -> Chapter:
        """The chapter that is shown, with names as far as they are known."""
        return name_chapter(
            self.shown,
            fault=self.fault,
            sentence=self.sentence,
            action=self.action,
            story=self.story,
        )

    @property
    def place(self) -> str:
        """Where in the story we are."""
        return f"[{self.shown}/{len(CHAPTERS)}]"

    @property
    def waits_for_viewer(self) -> bool:
        """The play goes on when its viewer says so."""
        return self.ready == self.reached == self.shown

    def _event(self, event: Event) -> None:
        self.done.add(event.kind or event.line.step)
        payload: Mapping[str, Any] = event.payload if isinstance(event.payload, Mapping) else {}
        match event.kind:
            case "healthy":
                self.done.add("watching")
            case "ticket_opened":
                self.alarm = Alarm.DETECTED
            case "ticket_resolved":
                self.alarm = Alarm.CALM
            case "reasoning":
                rows = payload.get("hypotheses") or ()
                found = tuple(from_json(RankedHypothesis, row) for row in rows)
                self.hypotheses = found[:HYPOTHESES_MAX] or self.hypotheses
            case "diagnosis":
                self.diagnosis = event.line.text
            case "verdict":
                level, judged = str(payload.get("level", "")), payload.get("action")
                command = brief_of(judged) if isinstance(judged, Mapping) else ""
                self.verdicts.append(Judged(level.upper(), str(payload.get("risk", "")), command))
                if level != "safe":
                    self.action = command
                    self.done.add("repair_judged")
            case "approval_requested":
                approval = payload.get("approval")
                if not isinstance(approval, Mapping):
                    self.request = None
                else:
                    action = approval.get("action")
                    fields: Mapping[str, Any] = action if isinstance(action, Mapping) else {}
                    self.request = ApprovalRequest(
                        id=str(approval.get("id", "")),
                        command=command_of(fields) if fields else "",
                        cwd=str(fields.get("cwd", "")),
                        target=str(fields.get("target", "")),
                        risk=str(approval.get("risk", "")),
                        why=str(fields.get("reasoning", "")),
                        expected=str(fields.get("expected", "")),
                    )
            case "approval_decided":
                self.request = None
                self._became(str(payload.get("answer") or payload.get("state") or ""))
            case "tool_result" | "refused":
                result = payload.get("result")
                if not isinstance(result, Mapping):
                    return
                outcome = str(result.get("outcome"))
                self._became(f"exit {result.get('exit_code')}" if outcome == "ran" else outcome)
                if self.verdicts and self.verdicts[-1].level != "SAFE":
                    self.done.add("repaired")

    def _became(self, outcome: str) -> None:
        if self.verdicts:
            last = self.verdicts[-1]
            self.verdicts[-1] = Judged(last.level, last.risk, last.command, outcome)


UP, DOWN, COMING = "●", "✖", "○"
BLOCKS = " ▁▂▃▄▅▆▇█"
GAP = 2
_LOOKS = {Look.NORMAL: "green", Look.INJECTING: "bold red", Look.RECOVERING: "bold yellow"}
_LEVELS = {"SAFE": "green", "REVIEW": "yellow", "BLOCKED": "bold red"}
# Where there is less room for a node, only its problem is shown.
ROOMY_CHARS = 22
BAR_CHARS = 12
TEXT_CHARS_MAX = 400
LINE_CHARS_MAX = 600
INDENT = 2


def fold_line(line: str, width: int) -> list[str]:
    """A line of output as rows that fit, the later ones indented; what is too long is cut."""
    text = clean(line[:LINE_CHARS_MAX]).expandtabs()
    if len(line) > LINE_CHARS_MAX:
        text += " ..."
    if width <= INDENT or cell_len(text) <= width:
        return [text]
    if cell_len(text) == len(text):
        # Between words where there are any; text without blanks is folded all the same.
        return textwrap.wrap(text, width, subsequent_indent=" " * INDENT) or [""]
    rows = chop_cells(text, width - INDENT)
    return [rows[0], *(" " * INDENT + row for row in rows[1:])]


def look_style(look: Look) -> str:
    """The colour of a state; its word says the same."""
    return _LOOKS[look]


def cluster_text(
    targets: Sequence[TargetView], broken: Mapping[str, Sequence[str]], width: int, height: int
) -> Text:
    """Every node with a dot or a cross, in as many columns as it takes."""
    columns = max(1, -(-len(targets) // max(1, height)))
    cell = max(8, width // columns - GAP)
    rows = -(-len(targets) // columns)
    text = Text(no_wrap=True, overflow="crop")
    for row in range(rows):
        if row:
            text.append("\n")
        for column in range(columns):
            place = column * rows + row
            if place < len(targets):
                target = targets[place]
                text.append_text(_node(target, broken.get(target.name, ()), cell))
                text.append(" " * GAP)
    return text


def _node(target: TargetView, broken: Sequence[str], width: int) -> Text:
    name = clean(target.name)
    if target.state == "starting":
        mark, style, state = COMING, "dim", "starting"
    elif target.state == "running":
        mark, style, state = UP, "green", f"up   :{target.port}" if target.port else "up"
    else:
        mark, style, state = DOWN, "bold red", clean(target.state)
    if broken and target.state == "running":
        style, state = "bold yellow", clean(", ".join(broken))
    elif broken:
        state = f"{state}: {clean(', '.join(broken))}"
    wrong = bool(broken) or mark == DOWN
    roomy = width >= ROOMY_CHARS
    name = f"{name:11}" if roomy else name
    text = Text.assemble((mark, style), " ", (name, "bold" if wrong else ""), " ")
    if wrong or roomy:
        text.append(state, style if wrong else "dim")
    text.truncate(width, overflow="ellipsis", pad=True)
    return text


def traffic_text(traffic: Traffic, answered: tuple[int, int], width: int, height: int) -> Text:
    """Requests a second as a number, and the last samples as bars."""
    text = Text(no_wrap=True, overflow="crop")
    if not traffic.samples:
        return text.append("no traffic yet", "dim")
    value, usual = traffic.samples[-1], traffic.baseline
    style = "bold red" if traffic.is_degraded else "bold green"
    text.append(f"{value:.0f} ops/s", style)
    if traffic.is_degraded:
        text.append("  DEGRADED", "bold red")
    if usual:
        text.append(f"  {value / usual:.0%} of {usual:.0f}", "dim")
    good, total = answered
    if total:
        text.append(f"  {good / total:.1%} answered", "dim")
    text.truncate(width, overflow="ellipsis")
    for row in bars(list(traffic.samples), max(1, height - 1), top=usual):
        text.append("\n")
        wide = 2 if width >= 2 * len(traffic.samples) else 1
        for block, sample in zip(row, traffic.samples, strict=True):
            text.append(block * wide, "red" if traffic.is_low(sample) else "green")
    return text


def bars(samples: Sequence[float], height: int, *, top: float | None = None) -> list[str]:
    """Samples as columns of blocks, one string for each row from the top."""
    most = max([*samples, top or 0.0, 1.0])
    eighths = [round(value / most * height * 8) for value in samples]
    rows = []
    for row in range(height - 1, -1, -1):
        rows.append("".join(BLOCKS[max(0, min(8, eighth - row * 8))] for eighth in eighths))
    return rows


def hypotheses_text(
    rows: Sequence[RankedHypothesis], diagnosis: str, width: int, limit: int
) -> Text:
    """Each hypothesis with its odds, the likeliest first; below them the diagnosis."""
    lines = []
    for number, row in enumerate(sorted(rows, key=lambda row: -row.probability)[:limit]):
        filled = round(row.probability * BAR_CHARS)
        style = "bold cyan" if number == 0 else ""
        line = Text(f"{row.probability * 100:5.1f} % ", style)
        line.append("█" * filled, "cyan")
        line.append("░" * (BAR_CHARS - filled), "dim")
        lines.append(line.append(f" {clean(row.cause)} at {clean(row.target)}", style))
    if diagnosis:
        lines.append(Text(clean(diagnosis[:TEXT_CHARS_MAX]), "bold"))
    return _rows(lines, width)


def verdicts_text(verdicts: Sequence[Judged], width: int, limit: int) -> Text:
    """The verdicts of the gate and their results, newest last."""
    lines = []
    for verdict in list(verdicts)[-limit:]:
        outcome = f" -> {clean(verdict.outcome)}" if verdict.outcome else ""
        line = Text.assemble(
            (f"{clean(verdict.level):8}", _LEVELS.get(verdict.level, "")),
            (f"{clean(verdict.risk):9}", "dim"),
            clean(verdict.command[:TEXT_CHARS_MAX]),
        )
        # How it ended is never what is cut.
        line.truncate(max(0, width - cell_len(outcome)), overflow="ellipsis")
        lines.append(line.append(outcome, "dim"))
    return _rows(lines, width)


def _rows(lines: Sequence[Text], width: int) -> Text:
    """Lines that are cut where the panel ends, and never folded."""
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


def steps_text(chapter: Chapter, done: set[str]) -> Text:
    """What to watch for, numbered, with a tick at what has happened."""
    text = Text()
    for number, step in enumerate(chapter.steps, 1):
        seen = any(kind in done for kind in step.kinds)
        text.append("\n" if number > 1 else "")
        text.append("✓ " if seen else "  ", "bold green")
        text.append(f"{number}. {step.text}", "green" if seen else "")
    return text
