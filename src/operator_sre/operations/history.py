"""The history of commands: every one, run or refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Unpack

from msgspec import Meta

from operator_protocols.domain.command import OUTCOMES, Command
from operator_protocols.domain.verdict import Level
from operator_sre.app import history
from operator_sre.app.history import CommandSelection
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.ledger.history.statistics import FailurePattern, Tally
from operator_sre.ledger.history.templates import VenvViolation
from operator_sre.operations.operation import (
    NUMBER_MAX,
    TEXT_MAX,
    Operation,
    Page,
    Request,
    Route,
    Table,
    Tool,
    View,
    facts,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["OPERATIONS", "SUMMARY", "CommandPage", "command_lines"]

SUMMARY = "Search commands that ran or were refused."
OFTEN_MAX = 20
COMMAND_CHARACTERS_MAX = 160
_WORD = {"api": Meta(max_length=200)}
_NUMBER = Meta(ge=1, le=NUMBER_MAX)
TicketNumber = Annotated[
    int | None,
    Meta(
        le=NUMBER_MAX,
        description="Only commands of this ticket.",
        extra={"api": _NUMBER, "mcp": _NUMBER},
    ),
]
Run = Annotated[
    str, Meta(max_length=TEXT_MAX, description="Only commands of this run.", extra=_WORD)
]
Target = Annotated[
    str, Meta(max_length=TEXT_MAX, description="Only commands on this target.", extra=_WORD)
]
Since = Annotated[
    str,
    Meta(
        max_length=TEXT_MAX,
        description="Only since: 30m, 12h, 7d, or a time such as 2026-03-04T12:00.",
        extra={
            "api": Meta(max_length=40, description="Such as 30m, 12h, 7d, or a time."),
            "mcp": Meta(max_length=40, description="30m, 12h, 7d, a time."),
        },
    ),
]
Many = Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of rows.")]
Before = Annotated[int | None, Meta(le=NUMBER_MAX, description="Only commands before this number.")]


class ListHistory(Request, frozen=True):
    """Which commands, and how many."""

    ticket: TicketNumber = None
    run: Run = ""
    target: Target = ""
    level: Annotated[
        Level | None,
        Meta(description="Only this verdict: safe, review or blocked.", extra={"api": Meta()}),
    ] = None
    outcome: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX,
            description="Only this outcome: succeeded, failed, refused, running, ...",
            extra={"api": Meta(pattern=f"^(|{'|'.join(OUTCOMES)})$")},
        ),
    ] = ""
    since: Since = ""
    limit: Many = 50
    before: Before = None


class SearchHistory(ListHistory, frozen=True, kw_only=True):
    """Words, and which commands may have them."""

    words: Annotated[
        tuple[str, ...], Meta(max_length=1000, description='Words, "a phrase" or a prefix*.')
    ]


class SearchText(Request, frozen=True):
    """Words, and where to look for them."""

    text: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=500,
            description="The words to search for.",
            extra={
                "query": "q",
                "mcp": Meta(min_length=1, max_length=500, description="Any words."),
            },
        ),
    ]
    ticket: TicketNumber = None
    run: Annotated[
        str,
        Meta(
            max_length=200, description="Only commands of this run.", extra={**_WORD, "mcp": False}
        ),
    ] = ""
    run_id: Annotated[
        str, Meta(max_length=100, description="The id of a run.", extra={"api": False})
    ] = ""
    since: Since = ""
    before: Annotated[int, Meta(ge=0, le=NUMBER_MAX, description="The next page.")] = 0
    limit: Many = 20


class ShowCommand(Request, frozen=True):
    """Which command."""

    seq: Annotated[
        int, Meta(ge=1, le=NUMBER_MAX, description="The entry with which the command started.")
    ]


class FilterHistory(Request, frozen=True):
    """Which commands."""

    ticket: TicketNumber = None
    run: Run = ""
    target: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX, description="Only commands on this target.", extra={"api": False}
        ),
    ] = ""
    since: Since = ""


class CountHistory(FilterHistory, frozen=True, kw_only=True):
    """Which commands, and how many rows."""

    limit: Many = 50


@dataclass(frozen=True, slots=True)
class CommandPage:
    """Commands, the newest first; `behind` counts the entries that are not indexed yet."""

    commands: tuple[Command, ...]
    next_cursor: str = ""
    behind: int = 0
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CommandDocument:
    """One command."""

    command: Command
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class StatisticsDocument:
    """Figures over the newest commands."""

    statistics: history.Statistics
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Figures:
    """The first figures of each kind; `often` are commands that succeed again and again."""

    attempts: int
    commands: tuple[Tally, ...]
    success_patterns: tuple[Tally, ...]
    failure_patterns: tuple[FailurePattern, ...]
    often: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViolationList:
    """Commands that ran without an environment that they needed."""

    violations: tuple[VenvViolation, ...]


def list_history(
    app: App, *, limit: int, before: int | None, **where: Unpack[CommandSelection]
) -> history.FoundCommands:
    """Commands, the newest first."""
    return history.list_commands(
        app, history.parse_filter(app, **where), limit=limit, before=before
    )


async def search_history(
    app: App,
    *,
    words: tuple[str, ...],
    limit: int,
    before: int | None,
    **where: Unpack[CommandSelection],
) -> history.FoundCommands:
    """Commands that have all these words, the newest first."""
    selection = history.parse_filter(app, **where)
    text = " ".join(words)
    return await history.search_commands(app, text, selection, limit=limit, before=before)


async def search_text(
    app: App,
    *,
    text: str,
    ticket: int | None,
    run: str,
    run_id: str,
    since: str,
    before: int,
    limit: int,
) -> history.FoundCommands:
    """Commands that match a text, the newest first."""
    where = history.parse_filter(app, ticket=ticket, run=run or run_id, since=since)
    return await history.search_commands(app, text, where, limit=limit, before=before or None)


def show_command(app: App, seq: int) -> Command:
    """One command."""
    return history.show_command(app, seq).command


def count(app: App, **where: Unpack[CommandSelection]) -> history.Statistics:
    """Figures over commands."""
    return history.statistics(app, history.parse_filter(app, **where))


def count_some(app: App, *, limit: int, **where: Unpack[CommandSelection]) -> Figures:
    """The first `limit` of these figures."""
    found = count(app, **where)
    return Figures(
        found.attempts,
        found.commands[:limit],
        found.success_patterns[:limit],
        found.failure_patterns[:limit],
        tuple(tally.command for tally in found.success_patterns[:OFTEN_MAX]),
    )


def list_failures(app: App, **where: Unpack[CommandSelection]) -> history.Failures:
    """Failures, and patterns of failures."""
    return history.failures(app, history.parse_filter(app, **where))


def list_violations(app: App, *, limit: int, **where: Unpack[CommandSelection]) -> ViolationList:
    """List Python commands that ran without a virtual environment."""
    return ViolationList(
        tuple(history.venv_report(app, history.parse_filter(app, **where), limit=limit))
    )


def _outcome(command: Command) -> str:
    if command.outcome == "ran":
        return f"exit {command.exit_code}"
    return command.outcome or "running"


def _table(found: CommandPage, now: datetime) -> View:
    rows = [
        (
            command.seq,
            f"{command.at:%m-%d %H:%M:%S}",
            _outcome(command),
            command.level or "-",
            command.target or "-",
            command.approver or "-",
            command.command[:COMMAND_CHARACTERS_MAX],
        )
        for command in found.commands
    ]
    head = ("seq", "when", "outcome", "level", "target", "approver", "command")
    rest = [f"({found.behind} entries are not in the index yet)"] if found.behind else []
    return [Table(head, rows, "No commands."), *rest]


def command_lines(view: history.CommandView) -> View:
    """Show a command with its reason, verdict, approver and output."""
    command = view.command
    where = f"run {command.run or '-'}, ticket {command.ticket or '-'}"
    who = f"{command.agent} ({command.agent_type}), {where}"
    lines = facts(
        (
            ("command", command.command),
            ("why", command.context),
            ("when", f"{command.at:%Y-%m-%d %H:%M:%S} UTC"),
            ("who", who),
            ("where", f"{command.target or '-'} in {command.cwd}"),
            ("venv", command.venv),
            ("verdict", f"{command.level}, risk {command.risk}" if command.level else ""),
            ("approver", command.approver),
            ("outcome", f"{_outcome(command)} in {command.duration_s:.2f} s"),
            ("failure", command.category),
            ("hash", command.output_hash),
            ("spool", " ".join(path for path in (view.stdout_file, view.stderr_file) if path)),
        )
    )
    tail = ["[...]", *command.tail.splitlines()] if command.tail else []
    return [*lines, "", *command.head.splitlines(), *tail]


def _figures(found: Figures, now: datetime) -> View:
    rows = [
        (
            tally.total,
            tally.successful,
            tally.failed,
            tally.refused,
            "-" if tally.success_rate is None else f"{tally.success_rate:.0%}",
            "-" if tally.avg_duration_s is None else f"{tally.avg_duration_s:.2f}",
            f"{tally.last:%m-%d %H:%M:%S}",
            tally.command[:COMMAND_CHARACTERS_MAX],
        )
        for tally in found.commands
    ]
    head = ("total", "ok", "failed", "refused", "rate", "avg s", "last", "command")
    often = [f"  {command[:COMMAND_CHARACTERS_MAX]}" for command in found.often]
    title = ["", "Succeeds repeatedly:"] if rows and often else []
    return [Table(head, rows, "No commands yet."), *title, *(often if rows else [])]


def _failures(found: history.Failures, now: datetime) -> View:
    lines = [] if found.by_category else ["Nothing has failed."]
    for group in found.by_category:
        lines.append(f"{group.category}: {group.count}")
        for example in group.examples:
            code = "" if example.exit_code is None else f"exit {example.exit_code}  "
            lines.append(f"  {example.seq:6}  {code}{example.command}"[:200])
    for pattern in found.patterns:
        summary = f"{pattern.failures} of {pattern.runs} failed ({pattern.category})"
        lines.append(f"{summary}: {'; '.join(pattern.lines)}"[:200])
    return lines


def _violations(found: ViolationList, now: datetime) -> View:
    rows = [
        (violation.attempt.seq, violation.advice, violation.attempt.command)
        for violation in found.violations
    ]
    none = "No Python command ran without a virtual environment."
    return [Table(("seq", "advice", "command"), rows, none)]


_HERE = "operator_sre.operations.history"
_PAGE = Page(key="seq", place="before")
_search_operation = partial(Operation, result=CommandPage, view=_table)
OPERATIONS = (
    _search_operation(
        name="history list",
        help="List commands, newest first.",
        request=ListHistory,
        call=f"{_HERE}.list_history",
        page=_PAGE,
        route=Route(
            "GET",
            "/v1/history",
            "list_history",
            summary="Commands, run or refused, the newest first.",
        ),
    ),
    _search_operation(
        name="history search",
        help="Search commands by words in the line, context or output, newest first.",
        request=SearchHistory,
        call=f"{_HERE}.search_history",
        arguments=("words",),
        # Unknown options are words to look for: `operator history search ls -la`.
        takes_unknown=True,
    ),
    _search_operation(
        name="history search",
        help="Commands whose command, context or output has all the words.",
        request=SearchText,
        call=f"{_HERE}.search_text",
        arguments=("text",),
        is_command=False,
        page=_PAGE,
        route=Route("GET", "/v1/history/search", "search_history"),
        tool=Tool(
            "search_history",
            "Search the history of commands",
            "Commands, run or refused, whose command, context or output has all these words.",
            picks=(
                *("seq", "at", "command", "tool", "target", "cwd", "context", "level", "outcome"),
                *("exit_code", "duration_s", "category", "ticket", "run", "agent", "head", "tail"),
            ),
        ),
    ),
    Operation(
        name="history stats",
        help="Show how often each command ran and succeeded.",
        request=CountHistory,
        result=Figures,
        call=f"{_HERE}.count_some",
        view=_figures,
        unprinted=("often",),
    ),
    Operation(
        name="history stats",
        help="Show how often each command ran and succeeded.",
        request=FilterHistory,
        result=StatisticsDocument,
        call=f"{_HERE}.count",
        view=lambda found, now: [],
        slow=True,
        is_command=False,
        route=Route("GET", "/v1/history/stats", "history_statistics"),
    ),
    Operation(
        name="history show",
        help="One command.",
        request=ShowCommand,
        result=CommandDocument,
        call=f"{_HERE}.show_command",
        view=lambda found, now: command_lines(history.CommandView(found.command, "", "")),
        is_command=False,
        route=Route("GET", "/v1/history/{seq}", "show_one_command", errors=(404,)),
    ),
    Operation(
        name="history failures",
        help="Show failures by category with examples, and repeated failures.",
        request=FilterHistory,
        result=history.Failures,
        call=f"{_HERE}.list_failures",
        view=_failures,
    ),
    Operation(
        name="history venv",
        help="List Python commands that ran without a virtual environment.",
        request=CountHistory,
        result=ViolationList,
        call=f"{_HERE}.list_violations",
        view=_violations,
    ),
)
