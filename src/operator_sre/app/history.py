"""The history of commands, for people and programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from operator_protocols.domain.command import OUTCOMES, Command, CommandFilter
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.verdict import Level
from operator_protocols.errors import NotFoundError, StoreError, UsageError
from operator_sre.app.redaction import LiveOutput, open_redactor
from operator_sre.app.wiring import App
from operator_sre.ledger.history.query import parse_query
from operator_sre.ledger.history.statistics import (
    FailureGroup,
    FailurePattern,
    Tally,
    failure_groups,
    failure_patterns,
    success_patterns,
    tallies,
)
from operator_sre.ledger.history.venvs import VenvViolation, venv_of, venv_violations

__all__ = [
    "CommandView",
    "Failures",
    "FoundCommands",
    "FoundEntries",
    "Statistics",
    "failures",
    "list_commands",
    "search_commands",
    "search_entries",
    "show_command",
    "show_output",
    "statistics",
    "venv_report",
    "wanted",
]

# Statistics and patterns are about the newest commands; older times were other times.
LOOK_BACK_MAX = 20_000
# A reader brings a small rest of the index up to date itself; a large one is left to the writers.
CATCH_UP_MAX = 20_000
CHUNK_BYTES = 65_536
_AGO = re.compile(r"(\d{1,4})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class CommandView:
    """One command, and where its whole output lies, as long as it does."""

    command: Command
    stdout_file: str
    stderr_file: str


@dataclass(frozen=True, slots=True)
class FoundCommands:
    """A page of commands, the newest first; `behind` counts entries that were not looked at yet."""

    commands: tuple[Command, ...]
    behind: int = 0


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """A page of entries, the newest first; `behind` counts those that were not looked at yet."""

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


def wanted(
    app: App,
    *,
    ticket: int | None = None,
    run: str = "",
    target: str = "",
    level: str = "",
    outcome: str = "",
    since: str = "",
) -> CommandFilter:
    """A filter from what somebody typed; UsageError names what there is."""
    if level and level not in set(Level):
        raise UsageError(f"There is no level {level!r}.", next_step=f"Levels: {', '.join(Level)}.")
    if outcome and outcome not in OUTCOMES:
        raise UsageError(
            f"There is no outcome {outcome!r}.", next_step=f"Outcomes: {', '.join(OUTCOMES)}."
        )
    start = _since(since, app.clock.now()) if since else None
    return CommandFilter(ticket, run, target, level, outcome, start)


def list_commands(
    app: App, where: CommandFilter, *, limit: int, before: int | None = None
) -> FoundCommands:
    """The newest commands, run or refused."""
    return FoundCommands(_seen(app.store.commands.newest(where, limit=limit, before=before)))


async def search_commands(
    app: App, text: str, where: CommandFilter, *, limit: int, before: int | None = None
) -> FoundCommands:
    """Commands whose command, context or output has all the words of any text at all."""
    query = parse_query(text)
    behind = await _catch_up(app)
    found = app.store.search.commands(query, where, limit=limit, before=before)
    return FoundCommands(_seen(found), behind)


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
            f"There is no command {seq}.", next_step="See them with: operator history list"
        )
    files = [
        str(app.spool.path_of(digest) or "")
        for digest in (command.stdout_sha256, command.stderr_sha256)
    ]
    return CommandView(_seen([command])[0], *files)


def show_output(app: App, seq: int, show: Callable[[int, bytes], bool]) -> None:
    """All that a command said, without secrets: stdout, then stderr, as 1 and 2 for `show`."""
    view = show_command(app, seq)
    kept = {
        1: (view.command.stdout_sha256, view.stdout_file),
        2: (view.command.stderr_sha256, view.stderr_file),
    }
    if any(digest and not path for digest, path in kept.values()):
        raise NotFoundError(
            f"The whole output of command {seq} is not on this machine, or not any more.",
            next_step=f"What the record keeps of it: operator history show {seq}",
        )
    live = LiveOutput(open_redactor(app.config), show)
    for number, (_, path) in kept.items():
        if path:
            with Path(path).open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    live.feed(number, chunk)
    live.end()


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


def _seen(commands: Sequence[Command]) -> tuple[Command, ...]:
    """With the environment that a command line names by itself."""
    return tuple(replace(one, venv=venv_of(one)) for one in commands)


def _since(text: str, now: datetime) -> datetime:
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no time.", next_step="Say 30m, 12h, 7d, or 2026-03-04T12:00."
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
