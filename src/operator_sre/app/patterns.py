"""Patterns of commands: learned from history, made by people, filled in and judged, never run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from operator_protocols.domain.command import Attempt, CommandFilter
from operator_protocols.domain.observation import Value
from operator_protocols.domain.pattern import Pattern, PatternNote
from operator_protocols.domain.verdict import Verdict
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.approvals import signed_in
from operator_sre.app.persons import myself
from operator_sre.app.wiring import App
from operator_sre.gate import Policy, judge
from operator_sre.ledger.history.learning import category_of_line, learn
from operator_sre.ledger.history.offering import offered
from operator_sre.ledger.history.templates import (
    action_of,
    fill,
    fits,
    placeholders_of,
    quotes_a_placeholder,
)

__all__ = [
    "Filled",
    "create_pattern",
    "delete_pattern",
    "list_patterns",
    "show_pattern",
    "use_pattern",
]

LOOK_BACK_MAX = 20_000
LINES_MAX = 20
LINE_CHARS_MAX = 4096
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Filled:
    """A pattern with its placeholders filled in, and what the gate thinks of each line."""

    pattern: Pattern
    lines: tuple[str, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def level(self) -> str:
        """The strictest of the verdicts."""
        return max(verdict.level for verdict in self.verdicts).value


def list_patterns(app: App, *, like: str = "") -> list[Pattern]:
    """All that are offered: people's first, then learned ones; or those like a need."""
    attempts = app.store.commands.attempts(CommandFilter(), limit=LOOK_BACK_MAX)
    notes = {note.name: note for note in app.store.patterns.notes()}
    ran = _ran(attempts)
    made = [
        _measured(note.pattern, ran, uses=note.uses)
        for note in notes.values()
        if note.pattern is not None and not note.hidden
    ]
    found = made + [one for one in learn(attempts) if _is_offered(notes.get(one.name))]
    return offered(found, like) if like.strip() else found


def show_pattern(app: App, name: str) -> Pattern:
    """One pattern by its name."""
    for pattern in list_patterns(app):
        if pattern.name == name:
            return pattern
    raise NotFoundError(
        f"There is no pattern {name!r}.",
        next_step="See them with: operator history patterns list",
    )


async def create_pattern(
    app: App,
    name: str,
    lines: Sequence[str],
    *,
    category: str = "",
    preconditions: Mapping[str, Value] | None = None,
    context: str = "",
) -> Pattern:
    """Remember lines with placeholders under a name, in the name of whoever is signed in."""
    _must_be_sound(name, lines)
    pattern = Pattern(
        name=name,
        lines=tuple(lines),
        category=category or category_of_line(lines[-1]),
        preconditions=dict(preconditions or {}),
        placeholders=placeholders_of(lines),
        contexts=(context,) if context else (),
        made_by=signed_in(),
    )
    await app.store.patterns.create(pattern, by=pattern.made_by)
    return pattern


async def use_pattern(
    app: App, name: str, values: Mapping[str, str], *, subject: str = ""
) -> Filled:
    """Fill it in and have every line judged. Nothing is run."""
    pattern = show_pattern(app, name)
    lines = fill(pattern.lines, values)
    actions = [action_of(line) for line in lines]
    if subject:
        gate = app.care(app.choose([subject])[0]).gate
        verdicts = tuple(gate.judge(action, myself()) for action in actions)
    else:
        policy = Policy(mode=app.config.mode, book=app.rules())
        verdicts = tuple(judge(action, policy, person=True) for action in actions)
    filled = Filled(pattern, lines, verdicts)
    await app.store.patterns.use(name, lines=lines, level=filled.level, by=signed_in())
    return filled


async def delete_pattern(app: App, name: str, *, reason: str) -> None:
    """Offer it no more. The ledger keeps what it was."""
    show_pattern(app, name)
    await app.store.patterns.hide(name, reason=reason, by=signed_in())


def _is_offered(note: PatternNote | None) -> bool:
    """A learned one is, unless somebody hid it or made one of the same name."""
    return note is None or (note.pattern is None and not note.hidden)


def _ran(attempts: Iterable[Attempt]) -> Mapping[str, list[bool]]:
    """How each command ended, each time it did."""
    found: dict[str, list[bool]] = {}
    for one in attempts:
        if one.succeeded or one.failed:
            found.setdefault(one.command, []).append(one.succeeded)
    return found


def _measured(pattern: Pattern, ran: Mapping[str, list[bool]], *, uses: int) -> Pattern:
    """A person's pattern with how often it was used, and how runs that fit it went."""
    ends = [
        end
        for command, ends in ran.items()
        if any(fits(line, command) for line in pattern.lines)
        for end in ends
    ]
    rate = round(sum(ends) / len(ends), 4) if ends else None
    return replace(pattern, uses=uses, success_rate=rate)


def _must_be_sound(name: str, lines: Sequence[str]) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a pattern.",
            next_step="Use small letters, digits, - and _, up to 63, beginning with a letter.",
        )
    if not lines or len(lines) > LINES_MAX:
        raise UsageError(f"A pattern has one to {LINES_MAX} lines.", next_step="Name them.")
    for line in lines:
        if not line.strip() or len(line) > LINE_CHARS_MAX or not line.isprintable():
            raise UsageError(
                f"The line {line[:40]!r} is empty, too long, or not plain text.",
                next_step=f"Give each command as one line of up to {LINE_CHARS_MAX} characters.",
            )
        if quotes_a_placeholder(line):
            raise UsageError(
                f"In the line {line[:40]!r} a placeholder stands inside quotes.",
                next_step="Take the quotes away: values are quoted when they are filled in.",
            )
