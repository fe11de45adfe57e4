"""Domain values as text on a screen: a symbol, the word, and a colour that only repeats it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.text import Text

from operator_protocols.domain.command import Command
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.ticket import Ticket
from operator_sre.app.story import hypotheses_of, lines_of
from operator_sre.app.ticket_brief import TicketBrief
from operator_sre.drawing import plural
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.tui.console.table import Cell

__all__ = [
    "TONES",
    "ago",
    "clock",
    "diagnosis",
    "facts",
    "health",
    "level",
    "outcome",
    "proofs",
    "severity",
    "state",
    "time_left",
    "timeline",
]

TONES = {"good": "green", "bad": "bold red", "warn": "yellow", "strong": "bold", "plain": ""}
LABEL_CHARS = 10
TEXT_CHARS_MAX = 4_000
ENTRIES_MAX = 400
LINES_MAX = 40
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))
_HEALTH = {
    "healthy": ("● healthy", "green"),
    "unknown": ("? unknown", "yellow"),
    "broken": ("✗ BROKEN", "bold red"),
}
_SEVERITY = {
    "critical": ("!! critical", "bold red"),
    "warning": ("!  warning", "yellow"),
    "info": ("·  info", ""),
}
_STATE = {
    "open": "bold red",
    "claimed": "cyan",
    "watched": "yellow",
    "resolved": "green",
    "escalated": "bold yellow",
    "closed": "",
}
_LEVEL = {
    "safe": ("✓ SAFE", "green"),
    "review": ("? REVIEW", "yellow"),
    "blocked": ("✗ BLOCKED", "bold red"),
}


def ago(at: datetime, now: datetime) -> str:
    """The time since a moment, in one unit."""
    seconds = max(0.0, (now - at).total_seconds())
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def time_left(until: datetime, now: datetime) -> str:
    """The time until a moment, to the second."""
    seconds = max(0, round((until - now).total_seconds()))
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def clock(at: datetime) -> str:
    """The time of day."""
    return f"{at:%H:%M:%S}"


def health(word: str) -> Cell:
    """The health of a subject or target."""
    return Cell(*_HEALTH.get(word, (word, "")))


def severity(word: str) -> Cell:
    """The severity of a ticket."""
    return Cell(*_SEVERITY.get(word, (word, "")))


def state(ticket: Ticket, now: datetime) -> Cell:
    """The state of a ticket, and whether it is held, snoozed or flapping."""
    word, style = ticket.state.value, _STATE.get(ticket.state, "")
    if ticket.pause is not None and ticket.is_paused(now):
        word += ", snoozed" if ticket.pause.snoozed else ", held"
    return Cell(f"{word}, flapping" if ticket.flapping else word, style)


def level(word: str) -> Cell:
    """The verdict of the gate."""
    return Cell(*_LEVEL.get(word, (word or "-", "")))


def outcome(command: Command) -> Cell:
    """The outcome of a command."""
    if not command.outcome:
        return Cell("► running", "bold cyan")
    if command.outcome == "ran":
        good = command.exit_code == 0
        return Cell(f"{'✓' if good else '✗'} exit {command.exit_code}", "green" if good else "red")
    return Cell(f"✗ {command.outcome.replace('_', ' ')}", "yellow")


def facts(pairs: Iterable[tuple[str, str]], width: int) -> Text:
    """A label and a text on each line; long texts continue below, next to their label."""
    text = Text()
    room = max(20, width - LABEL_CHARS - 1)
    for name, value in pairs:
        if not value:
            continue
        # Only the expected effect may have several lines; a command shows its line breaks escaped.
        lines = value.split("\n") if name == "expects" else [value]
        rows = [row for line in lines for row in _fold(line, room)]
        for at, row in enumerate(rows):
            label = clean(name)[:LABEL_CHARS] if at == 0 else ""
            text.append(f"{label:{LABEL_CHARS}} ", "dim")
            text.append(f"{row}\n", "bold" if name == "command" else "")
    text.rstrip()
    return text


def timeline(entries: Sequence[Entry], width: int) -> Text:
    """The history of a ticket: the time, the step and what happened."""
    text = Text()
    skipped = max(0, len(entries) - ENTRIES_MAX)
    if skipped:
        text.append(f"({skipped} earlier entries; see: operator tickets show)\n", "dim")
    for entry in entries[skipped:]:
        for line in lines_of(entry):
            rows = [(clock(entry.at), line.step, line.text, TONES[line.tone])]
            rows += [("", "", detail, "dim") for detail in line.details]
            for when, step, words, style in rows:
                place = f"{when:8}  {step:7} "
                room = max(20, width - len(place))
                parts = words.rstrip().split("\n")[:LINES_MAX]
                folded = [row for part in parts for row in _fold(part.rstrip(), room)]
                for at, row in enumerate(folded):
                    label = place if at == 0 else " " * len(place)
                    text.append(label, "cyan" if when else "dim")
                    text.append(f"{row}\n", style)
    return text if text else Text("No events yet.", "dim")


def diagnosis(brief: TicketBrief, entries: Sequence[Entry], width: int) -> Text:
    """The action with its approval, the evidence, the findings, then the rest."""
    found, action = brief.diagnosis, brief.action
    pairs: list[tuple[str, str]] = []
    if action is not None:
        undo = {True: ", reversible", False: ", not reversible", None: ""}[action.reversible]
        pairs.append(("command", action.command))
        pairs.append(("verdict", f"{action.level.upper()}, risk {action.risk}{undo}"))
        how = ": press 3 to decide" if action.approval_id else ""
        pairs += [("expects", action.expected), ("approval", f"{action.approval}{how}")]
        pairs += [("result", action.result), ("run it", action.by_hand)]
    pairs += [("proposed", brief.recommendation), ("proof", brief.proof)]
    if found is not None:
        sources = (f" (entry {item.seq})" if item.seq else " (claim)" for item in found.evidence)
        evidence = [
            f"{item.sentence}{source}" for item, source in zip(found.evidence, sources, strict=True)
        ]
        pairs += _label("evidence", evidence)
    shown = [brief.describe(finding) for finding in brief.findings.shown]
    pairs += _label("findings", [*shown, *(fold.text for fold in brief.findings.folds)])
    if found is not None:
        rejected = [
            f"{option.cause} at {option.target}: {option.why_rejected}"
            for option in found.alternatives
        ]
        options = [
            f"{option.action} (risk {option.risk}): {option.trade_off}" for option in found.options
        ]
        pairs += [*_label("rejected", rejected), *_label("options", options)]
        pairs.append(("choice", f"{found.choice}. {found.why}"))
    text = facts(pairs, width)
    turns = [entry for entry in entries if entry.kind is Kind.REASONING]
    if rows := next(filter(None, map(hypotheses_of, reversed(turns))), ()):
        text.append("\n\nHypotheses", "bold")
        text.append(f"  (after {plural(len(turns), 'turn')})\n", "dim")
        for row in rows:
            bar = "█" * round(row.probability * 20)
            was = f"  was {row.before * 100:.1f} %" if row.before is not None else ""
            name = clean(f"{row.cause} at {row.target}"[:TEXT_CHARS_MAX])
            text.append(f"  {row.probability * 100:5.1f} %  {bar:·<20}  {name}")
            text.append(f"{was}\n", "dim")
    return text


def _label(name: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """Lines of which only the first carries the label."""
    return [(name if at == 0 else "", line) for at, line in enumerate(lines)]


def proofs(entries: Sequence[Entry], width: int) -> Text:
    """What the checks after an action found, newest first."""
    text = Text()
    for proof in reversed([entry for entry in entries if entry.kind is Kind.PROOF]):
        held = bool(proof.payload["held"])
        words = ("✓ HELD", "bold green") if held else ("✗ DID NOT HOLD", "bold red")
        text.append(f"{clock(proof.at)}  ", "dim")
        text.append(*words)
        text.append("\n")
        checks, stable_s = proof.payload.get("looks", ""), proof.payload.get("stable_s", 0.0)
        pairs = (
            ("health", str(proof.payload.get("health", ""))),
            ("checked", f"{checks} times, stable for {stable_s:.0f} s" if checks != "" else ""),
            ("detail", str(proof.payload["detail"])),
        )
        text.append(facts(pairs, width))
        text.append("\n\n")
    return text if text else Text("No proof yet.", "dim")


def _fold(value: str, room: int) -> list[str]:
    """Rows of cleaned text, folded between words where possible."""
    rows: list[str] = []
    rest = clean(value[:TEXT_CHARS_MAX]).expandtabs(4)
    while len(rest) > room:
        at = rest.rfind(" ", room // 2, room + 1)
        cut = room if at < 0 else at
        rows.append(rest[:cut])
        rest = rest[cut:].lstrip(" ") if at >= 0 else rest[cut:]
    rows.append(rest)
    return [*rows, "…"] if len(value) > TEXT_CHARS_MAX else rows
