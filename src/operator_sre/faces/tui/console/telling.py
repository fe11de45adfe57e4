"""Nouns as people read them on a screen: words first, a symbol before them, colour last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from operator_protocols.domain.command import Command
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.ticket import Ticket
from operator_sre.app.story import hypotheses_of, lines_of
from operator_sre.faces.cleaning import clean
from operator_sre.faces.tui.console.table import Cell

__all__ = [
    "TONES",
    "ago",
    "clock",
    "diagnosis",
    "facts",
    "health",
    "left",
    "level",
    "outcome",
    "proofs",
    "severity",
    "state",
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
    """How long something is past, in one unit."""
    seconds = max(0.0, (now - at).total_seconds())
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def left(until: datetime, now: datetime) -> str:
    """How long something still lasts, to the second."""
    seconds = max(0, round((until - now).total_seconds()))
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def clock(at: datetime) -> str:
    """A time of this day, as the ledger has it."""
    return f"{at:%H:%M:%S}"


def health(word: str) -> Cell:
    """Healthy, unknown or broken."""
    return Cell(*_HEALTH.get(word, (word, "")))


def severity(word: str) -> Cell:
    """How urgent."""
    return Cell(*_SEVERITY.get(word, (word, "")))


def state(ticket: Ticket, now: datetime) -> Cell:
    """Where a ticket stands, and what keeps agents off it."""
    word, style = ticket.state.value, _STATE.get(ticket.state, "")
    if ticket.pause is not None and ticket.paused(now):
        word += ", snoozed" if ticket.pause.snoozed else ", held"
    return Cell(f"{word}, flaps" if ticket.flapping else word, style)


def level(word: str) -> Cell:
    """What the gate said of a command."""
    return Cell(*_LEVEL.get(word, (word or "-", "")))


def outcome(command: Command) -> Cell:
    """What became of a command."""
    if not command.outcome:
        return Cell("► running", "bold cyan")
    if command.outcome == "ran":
        good = command.exit_code == 0
        return Cell(f"{'✓' if good else '✗'} exit {command.exit_code}", "green" if good else "red")
    return Cell(f"✗ {command.outcome.replace('_', ' ')}", "yellow")


def facts(pairs: Iterable[tuple[str, str]], width: int) -> Text:
    """A name and a text on each line; what does not fit goes on below, beside its name."""
    text = Text()
    room = max(20, width - LABEL_CHARS - 1)
    for name, value in pairs:
        if not value:
            continue
        # Only what a tool expects has several lines: a command shows what it hides.
        lines = value.split("\n") if name == "expects" else [value]
        rows = [row for line in lines for row in _folded(line, room)]
        for at, row in enumerate(rows):
            label = clean(name)[:LABEL_CHARS] if at == 0 else ""
            text.append(f"{label:{LABEL_CHARS}} ", "dim")
            text.append(f"{row}\n", "bold" if name == "command" else "")
    text.rstrip()
    return text


def timeline(entries: Sequence[Entry], width: int) -> Text:
    """The story of a ticket: when, which step of the journey, and what it says."""
    text = Text()
    skipped = max(0, len(entries) - ENTRIES_MAX)
    if skipped:
        text.append(f"({skipped} earlier entries: operator tickets show)\n", "dim")
    for entry in entries[skipped:]:
        for line in lines_of(entry):
            _told(text, clock(entry.at), line.step, line.text, TONES[line.tone], width)
            for detail in line.details:
                _told(text, "", "", detail, "dim", width)
    return text if text else Text("Nothing has happened yet.", "dim")


def diagnosis(entries: Sequence[Entry], width: int) -> Text:
    """What was thought: the newest table of hypotheses, and the diagnosis with its grounds."""
    text = Text()
    found = [one for one in entries if one.kind is Kind.DIAGNOSIS]
    turns = [one for one in entries if one.kind is Kind.REASONING]
    if rows := next(filter(None, map(hypotheses_of, reversed(turns))), ()):
        text.append("Hypotheses", "bold")
        text.append(f"  (thought {len(turns)} times)\n", "dim")
        for one in rows:
            bar = "█" * round(one.probability * 20)
            was = f"  was {one.before * 100:.1f} %" if one.before is not None else ""
            name = clean(f"{one.cause} at {one.target}"[:TEXT_CHARS_MAX])
            text.append(f"  {one.probability * 100:5.1f} %  {bar:·<20}  {name}")
            text.append(f"{was}\n", "dim")
        text.append("\n")
    for entry in found[-1:]:
        _diagnosed(text, entry.payload, width)
    if not text:
        return Text("Nobody has thought about it yet.", "dim")
    if not found:
        text.append("There is no diagnosis yet.\n", "dim")
    return text


def proofs(entries: Sequence[Entry], width: int) -> Text:
    """What was seen after acting, newest first."""
    text = Text()
    for one in reversed([entry for entry in entries if entry.kind is Kind.PROOF]):
        held = bool(one.payload["held"])
        words = ("✓ HELD", "bold green") if held else ("✗ DID NOT HOLD", "bold red")
        text.append(f"{clock(one.at)}  ", "dim")
        text.append(*words)
        text.append("\n")
        looks, held_s = one.payload.get("looks", ""), one.payload.get("held_s", 0.0)
        seen = f"{looks} looks, held for {held_s:.0f} s" if looks != "" else ""
        known = (("health", str(one.payload.get("health", ""))), ("seen", seen))
        text.append(facts((*known, ("detail", str(one.payload["detail"]))), width))
        text.append("\n\n")
    return text if text else Text("Nothing has been proven yet.", "dim")


def _diagnosed(text: Text, payload: Mapping[str, Any], width: int) -> None:
    sure = f"{min(payload['confidence'], 0.999):.1%} sure"
    text.append(f"Diagnosis, {sure}\n", "bold")
    evidence = [(str(one["sentence"]), one.get("seq")) for one in payload["evidence"]]
    pairs = [("cause", str(payload["summary"]))]
    pairs += [
        ("evidence" if at == 0 else "", f"{'claim' if seq is None else f'#{seq}'}: {sentence}")
        for at, (sentence, seq) in enumerate(evidence)
    ]
    pairs += [
        ("not" if at == 0 else "", f"{one['cause']} at {one['target']}: {one['why_rejected']}")
        for at, one in enumerate(payload["alternatives"])
    ]
    pairs += [
        ("options" if at == 0 else "", f"{one['action']} (risk {one['risk']}): {one['trade_off']}")
        for at, one in enumerate(payload["options"])
    ]
    pairs.append(("choice", f"{payload['choice']}. {payload['why']}"))
    text.append(facts(pairs, width))


def _told(text: Text, when: str, step: str, said: str, style: str, width: int) -> None:
    place = f"{when:8}  {step:7} "
    room = max(20, width - len(place))
    lines = said.rstrip().split("\n")[:LINES_MAX]
    for at, row in enumerate(row for line in lines for row in _folded(line.rstrip(), room)):
        text.append(place if at == 0 else " " * len(place), "dim" if not when else "cyan")
        text.append(f"{row}\n", style)


def _folded(value: str, room: int) -> list[str]:
    """Cleaned, and folded between words where it can be."""
    rows: list[str] = []
    rest = clean(value[:TEXT_CHARS_MAX]).expandtabs(4)
    while len(rest) > room:
        at = rest.rfind(" ", room // 2, room + 1)
        cut = room if at < 0 else at
        rows.append(rest[:cut])
        rest = rest[cut:].lstrip(" ") if at >= 0 else rest[cut:]
    rows.append(rest)
    return [*rows, "…"] if len(value) > TEXT_CHARS_MAX else rows
