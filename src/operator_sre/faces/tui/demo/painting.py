"""How the demo's panels look: pure functions from what is known to text. No colour is needed."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from rich.cells import cell_len, chop_cells
from rich.text import Text

from operator_sre.app.demo import Chapter, Look
from operator_sre.app.lab import TargetView
from operator_sre.faces.cleaning import clean
from operator_sre.faces.tui.demo.stage import Hypothesis, Judged, Traffic

__all__ = [
    "bars",
    "cluster_text",
    "folded",
    "hypotheses_text",
    "look_style",
    "steps_text",
    "traffic_text",
    "verdicts_text",
]

UP, DOWN, COMING = "●", "✖", "○"
BLOCKS = " ▁▂▃▄▅▆▇█"
GAP = 2
_LOOKS = {Look.NORMAL: "green", Look.INJECTING: "bold red", Look.RECOVERING: "bold yellow"}
_LEVELS = {"SAFE": "green", "REVIEW": "yellow", "BLOCKED": "bold red"}
# Where there is less room for a node, only what is wrong with it is said.
ROOMY_CHARS = 22
BAR_CHARS = 12
TEXT_CHARS_MAX = 400
LINE_CHARS_MAX = 600
INDENT = 2


def folded(line: str, width: int) -> list[str]:
    """A line of output as rows that fit, the later ones indented; what is too long is cut."""
    text = clean(line[:LINE_CHARS_MAX]).expandtabs()
    if len(line) > LINE_CHARS_MAX:
        text += " ..."
    if width <= INDENT or cell_len(text) <= width:
        return [text]
    if cell_len(text) == len(text):
        # Between words where there are any; whoever writes without is folded all the same.
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
                one = targets[place]
                text.append_text(_node(one, broken.get(one.name, ()), cell))
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
        rows.append("".join(BLOCKS[max(0, min(8, one - row * 8))] for one in eighths))
    return rows


def hypotheses_text(rows: Sequence[Hypothesis], diagnosis: str, width: int, limit: int) -> Text:
    """Each hypothesis with its odds, the likeliest first; below them the diagnosis."""
    lines = []
    for number, one in enumerate(sorted(rows, key=lambda one: -one.percent)[:limit]):
        filled = round(one.percent / 100 * BAR_CHARS)
        style = "bold cyan" if number == 0 else ""
        line = Text(f"{one.percent:5.1f} % ", style)
        line.append("█" * filled, "cyan")
        line.append("░" * (BAR_CHARS - filled), "dim")
        lines.append(line.append(f" {clean(one.cause)} at {clean(one.target)}", style))
    if diagnosis:
        lines.append(Text(clean(diagnosis[:TEXT_CHARS_MAX]), "bold"))
    return _rows(lines, width)


def verdicts_text(verdicts: Sequence[Judged], width: int, limit: int) -> Text:
    """What the gate said and what became of it, newest last."""
    lines = []
    for one in list(verdicts)[-limit:]:
        outcome = f" -> {clean(one.outcome)}" if one.outcome else ""
        line = Text.assemble(
            (f"{clean(one.level):8}", _LEVELS.get(one.level, "")),
            (f"{clean(one.risk):9}", "dim"),
            clean(one.command[:TEXT_CHARS_MAX]),
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
