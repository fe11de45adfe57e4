"""The history of commands: runs and outputs, statistics, and patterns of commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from operator_protocols.domain.command import OUTCOMES, Command, CommandFilter
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import Value
from operator_protocols.domain.pattern import Pattern
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.errors import NotFoundError, StoreError, UsageError
from operator_sre.app.persons import myself, signed_in
from operator_sre.app.redaction import LiveOutput, open_redactor
from operator_sre.app.wiring import App
from operator_sre.ledger.history.patterns import category_of_line, learn, rank_patterns
from operator_sre.ledger.history.statistics import (
    FailureGroup,
    FailurePattern,
    Tally,
    failure_groups,
    failure_patterns,
    parse_query,
    success_patterns,
    tallies,
)
from operator_sre.ledger.history.templates import (
    VenvViolation,
    action_of,
    fill,
    fits,
    placeholders_of,
    quotes_a_placeholder,
    venv_of,
    venv_violations,
)

if TYPE_CHECKING:
    # Readers of the history do not load the gate and the executor.
    from operator_sre.executor.jobs import JobOutput

__all__ = [
    "CommandSelection",
    "CommandView",
    "Failures",
    "FilledPattern",
    "FoundCommands",
    "FoundEntries",
    "RunningOutput",
    "Statistics",
    "create_pattern",
    "delete_pattern",
    "failures",
    "list_commands",
    "list_patterns",
    "parse_filter",
    "running_output",
    "search_commands",
    "search_entries",
    "show_command",
    "show_output",
    "show_pattern",
    "statistics",
    "use_pattern",
    "venv_report",
]

# Statistics and patterns are about the newest commands; older times were other times.
LOOK_BACK_MAX = 20_000
# A reader brings a small rest of the index up to date itself; a large one is left to the writers.
CATCH_UP_MAX = 20_000
CHUNK_BYTES = 65_536
PATTERN_LINES_MAX = 20
PATTERN_LINE_CHARS_MAX = 4096
_PATTERN_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_AGO = re.compile(r"(\d{1,4})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class CommandView:
    """One command, and where its whole output lies, as long as it does."""

    command: Command
    stdout_file: str
    stderr_file: str


class RunningOutput:
    """The live output of a command of another process, without secrets."""

    def __init__(self, growing: JobOutput, live: LiveOutput) -> None:
        self._growing = growing
        self._live = live

    @property
    def is_there(self) -> bool:
        """False before its first word, and for what says nothing on this machine."""
        return self._growing.is_there

    def advance(self) -> bool:
        """Pass on some of what is new; False when that was all for now."""
        return self._growing.advance()

    def end(self) -> None:
        """Pass on what still waits for the rest of its line."""
        self._live.end()


@dataclass(frozen=True, slots=True)
class FoundCommands:
    """A page of commands, newest first; `behind` counts entries that are not indexed yet."""

    commands: tuple[Command, ...]
    behind: int = 0


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """A page of entries, newest first; `behind` counts entries that are not indexed yet."""

    entries: tuple[Entry, ...]
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures over the newest commands; `attempts` says over how many."""

    attempts: int
    commands: tuple[Tally, ...]
    success_patterns: tuple[Tally, ...]
    failure_patterns: tuple[FailurePattern, ...]


@dataclass(frozen=True, slots=True)
class Failures:
    """What failed: by category with examples, and what fails again and again."""

    by_category: tuple[FailureGroup, ...]
    patterns: tuple[FailurePattern, ...]


@dataclass(frozen=True, slots=True)
class FilledPattern:
    """A pattern with its placeholders filled in, and what the gate thinks of each line."""

    pattern: Pattern
    lines: tuple[str, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def level(self) -> str:
        """The strictest of the verdicts."""
        return max(verdict.level for verdict in self.verdicts).value


class CommandSelection(TypedDict, total=False):
    """Which commands of the history: every condition that is given has to match."""

    ticket: int | None
    run: str
    target: str
    level: str | None
    outcome: str
    since: str


def parse_filter(
    app: App,
    *,
    ticket: int | None = None,
    run: str = "",
    target: str = "",
    level: str | None = None,
    outcome: str = "",
    since: str = "",
) -> CommandFilter:
    """A filter from user input; UsageError names the valid values."""
    if level and level not in set(Level):
        raise UsageError(
            f"{level!r} is not a valid level.", next_step=f"Levels: {', '.join(Level)}."
        )
    if outcome and outcome not in OUTCOMES:
        raise UsageError(
            f"{outcome!r} is not a valid outcome.", next_step=f"Outcomes: {', '.join(OUTCOMES)}."
        )
    start = None
    if ago := _AGO.fullmatch(since):
        start = app.clock.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    elif since:
        try:
            start = datetime.fromisoformat(since)
        except ValueError:
            raise UsageError(
                f"{since!r} is not a valid time.",
                next_step="Use 30m, 12h, 7d, or 2026-03-04T12:00.",
            ) from None
        start = start if start.tzinfo else start.replace(tzinfo=UTC)
    return CommandFilter(ticket, run, target, level or "", outcome, start)


def list_commands(
    app: App, where: CommandFilter, *, limit: int, before: int | None = None
) -> FoundCommands:
    """The newest commands, run or refused."""
    return FoundCommands(_with_venvs(app.store.commands.newest(where, limit=limit, before=before)))


async def search_commands(
    app: App, text: str, where: CommandFilter, *, limit: int, before: int | None = None
) -> FoundCommands:
    """Commands whose command, context or output has all the words of any text at all."""
    query = parse_query(text)
    behind = await _catch_up(app)
    found = app.store.search.commands(query, where, limit=limit, before=before)
    return FoundCommands(_with_venvs(found), behind)


async def search_entries(
    app: App,
    text: str,
    *,
    limit: int,
    before: int | None = None,
    ticket: int | None = None,
    run: str = "",
) -> FoundEntries:
    """Entries of any kind that have all the words of any text at all."""
    query = parse_query(text)
    behind = await _catch_up(app)
    found = app.store.search.entries(query, limit=limit, before=before, ticket=ticket, run=run)
    return FoundEntries(tuple(found), behind)


def show_command(app: App, seq: int) -> CommandView:
    """One command with everything known of it."""
    command = app.store.commands.get(seq)
    if command is None:
        raise NotFoundError(
            f"There is no command {seq}.", next_step="List them with: operator history list"
        )
    files = [
        str(app.spool.path_of(digest) or "")
        for digest in (command.stdout_sha256, command.stderr_sha256)
    ]
    return CommandView(_with_venvs([command])[0], *files)


def show_output(app: App, seq: int, show: Callable[[int, bytes], bool]) -> None:
    """Pass the full output without secrets to `show`: stdout as 1, then stderr as 2."""
    view = show_command(app, seq)
    kept = {
        1: (view.command.stdout_sha256, view.stdout_file),
        2: (view.command.stderr_sha256, view.stderr_file),
    }
    if any(digest and not path for digest, path in kept.values()):
        raise NotFoundError(
            f"The full output of command {seq} is not on this machine, or has been deleted.",
            next_step=f"See the recorded part: operator history show {seq}",
        )
    live = LiveOutput(open_redactor(app.config), show)
    for number, (_, path) in kept.items():
        if path:
            with Path(path).open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    live.feed(number, chunk)
    live.end()


def running_output(
    app: App, seq: int, show: Callable[[int, bytes], bool | None]
) -> RunningOutput | None:
    """Follow the command that began with this entry; None when none did."""
    from operator_sre.executor.jobs import JobOutput

    entry = app.store.entries.get(seq)
    if entry is None or entry.kind is not Kind.TOOL_CALL:
        return None
    live = LiveOutput(open_redactor(app.config), show)
    growing = JobOutput(app.running.folder, str(entry.payload["permit"]), live.feed)
    return RunningOutput(growing, live)


def statistics(app: App, where: CommandFilter) -> Statistics:
    """How often each command ran and how often that went well."""
    attempts = app.store.commands.attempts(where, limit=LOOK_BACK_MAX)
    return Statistics(
        attempts=len(attempts),
        commands=tuple(tallies(attempts)),
        success_patterns=tuple(success_patterns(attempts)),
        failure_patterns=tuple(failure_patterns(attempts)),
    )


def failures(app: App, where: CommandFilter) -> Failures:
    """What failed and why."""
    attempts = app.store.commands.attempts(where, limit=LOOK_BACK_MAX)
    return Failures(tuple(failure_groups(attempts)), tuple(failure_patterns(attempts)))


def venv_report(app: App, where: CommandFilter, *, limit: int) -> Sequence[VenvViolation]:
    """Commands of Python that ran without an environment, the newest first."""
    return venv_violations(app.store.commands.attempts(where, limit=LOOK_BACK_MAX))[:limit]


async def _catch_up(app: App) -> int:
    try:
        return await app.store.search.catch_up(entries_max=CATCH_UP_MAX)
    except StoreError:
        return app.store.search.behind()  # a full disk must not keep anybody from reading


def _with_venvs(commands: Sequence[Command]) -> tuple[Command, ...]:
    """With the environment that a command line names by itself."""
    return tuple(replace(command, venv=venv_of(command)) for command in commands)


def list_patterns(app: App, *, like: str = "") -> list[Pattern]:
    """All that are offered: people's first, then learned ones; or those like a need."""
    attempts = app.store.commands.attempts(CommandFilter(), limit=LOOK_BACK_MAX)
    notes = {note.name: note for note in app.store.patterns.notes()}
    endings: dict[str, list[bool]] = {}  # how each command ended, each time it did
    for attempt in attempts:
        if attempt.succeeded or attempt.failed:
            endings.setdefault(attempt.command, []).append(attempt.succeeded)
    found: list[Pattern] = []
    for note in notes.values():
        if (made := note.pattern) is not None and not note.hidden:
            fitting = [
                succeeded
                for command, ends in endings.items()
                if any(fits(line, command) for line in made.lines)
                for succeeded in ends
            ]
            rate = round(sum(fitting) / len(fitting), 4) if fitting else None
            found.append(replace(made, uses=note.uses, success_rate=rate))
    for learned in learn(attempts):
        # Unless it is hidden, or a person created one of the same name.
        known = notes.get(learned.name)
        if known is None or (known.pattern is None and not known.hidden):
            found.append(learned)
    return rank_patterns(found, like) if like.strip() else found


def show_pattern(app: App, name: str) -> Pattern:
    """One pattern by its name."""
    for pattern in list_patterns(app):
        if pattern.name == name:
            return pattern
    raise NotFoundError(
        f"There is no pattern {name!r}.", next_step="List them with: operator history patterns list"
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
    """Store lines with placeholders under a name, as the signed-in person."""
    if not _PATTERN_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name of a pattern.",
            next_step="Use up to 63 lowercase letters, digits, '-' and '_'; start with a letter.",
        )
    if not lines or len(lines) > PATTERN_LINES_MAX:
        raise UsageError(f"A pattern has 1 to {PATTERN_LINES_MAX} lines.", next_step="Name them.")
    for line in lines:
        if not line.strip() or len(line) > PATTERN_LINE_CHARS_MAX or not line.isprintable():
            raise UsageError(
                f"The line {line[:40]!r} is empty, too long, or not plain text.",
                next_step="Write each command as one line of up to"
                f" {PATTERN_LINE_CHARS_MAX} characters.",
            )
        if quotes_a_placeholder(line):
            raise UsageError(
                f"The line {line[:40]!r} has a placeholder inside quotes.",
                next_step="Remove the quotes: values are quoted when they are filled in.",
            )
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
) -> FilledPattern:
    """Fill it in and have every line judged. Nothing is run."""
    from operator_sre.gate import Policy, judge

    pattern = show_pattern(app, name)
    lines = fill(pattern.lines, values)
    actions = [action_of(line) for line in lines]
    if subject:
        gate = app.controls(app.choose([subject])[0]).gate
        verdicts = tuple(gate.judge(action, myself()) for action in actions)
    else:
        policy = Policy(mode=app.config.mode, book=app.rules())
        verdicts = tuple(judge(action, policy, person=True) for action in actions)
    filled = FilledPattern(pattern, lines, verdicts)
    await app.store.patterns.use(name, lines=lines, level=filled.level, by=signed_in())
    return filled


async def delete_pattern(app: App, name: str, *, reason: str) -> None:
    """Offer it no more. The ledger keeps what it was."""
    show_pattern(app, name)
    await app.store.patterns.hide(name, reason=reason, by=signed_in())
