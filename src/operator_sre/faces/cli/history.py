"""`operator history`: every command, run or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli import patterns
from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list, print_table
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_protocols.domain.command import Command
    from operator_sre.app.history import FoundCommands, Statistics

__all__ = ["app"]

app = typer.Typer(help="Every command, run or refused.", no_args_is_help=True)
app.add_typer(patterns.app, name="patterns")

SHOWN_MAX = 20
TicketOption = Annotated[int | None, typer.Option(max=NUMBER_MAX, help="Only of this ticket.")]
RunOption = Annotated[str, typer.Option(help="Only of this run.")]
TargetOption = Annotated[str, typer.Option(help="Only on this target.")]
LevelOption = Annotated[str, typer.Option(help="safe, review or blocked.")]
OutcomeOption = Annotated[str, typer.Option(help="succeeded, failed, refused, running, ...")]
SinceOption = Annotated[str, typer.Option(help="30m, 12h, 7d, or a time like 2026-03-04T12:00.")]
LimitOption = Annotated[int, typer.Option(min=1, max=10_000, help="How many.")]
BeforeOption = Annotated[int | None, typer.Option(max=NUMBER_MAX, help="Older than this one.")]


@app.command("list")
def list_(
    context: typer.Context,
    ticket: TicketOption = None,
    run: RunOption = "",
    target: TargetOption = "",
    level: LevelOption = "",
    outcome: OutcomeOption = "",
    since: SinceOption = "",
    limit: LimitOption = 50,
    before: BeforeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Commands, newest first."""
    from operator_sre.app import history

    with opened(context) as app:
        where = history.wanted(
            app,
            ticket=ticket,
            run=run,
            target=target,
            level=level,
            outcome=outcome,
            since=since,
        )
        found = history.list_commands(app, where, limit=limit, before=before)
    _print_found(found, as_json=as_json)


# Unknown options are words to look for: `operator history search ls -la`.
@app.command(context_settings={"ignore_unknown_options": True})
def search(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(help='Words; "a phrase"; a begin*.')],
    ticket: TicketOption = None,
    run: RunOption = "",
    target: TargetOption = "",
    level: LevelOption = "",
    outcome: OutcomeOption = "",
    since: SinceOption = "",
    limit: LimitOption = 50,
    before: BeforeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Commands with all of these words in their line, context or output, newest first."""
    from operator_sre.app import history

    with opened(context) as app:
        where = history.wanted(
            app,
            ticket=ticket,
            run=run,
            target=target,
            level=level,
            outcome=outcome,
            since=since,
        )
        text = " ".join(words)
        work = history.search_commands(app, text, where, limit=limit, before=before)
        found = run_until_stopped(work)
    _print_found(found, as_json=as_json)


@app.command()
def show(
    context: typer.Context,
    seq: Annotated[int, typer.Argument(max=NUMBER_MAX, help="A number from the list.")],
    output: Annotated[
        bool, typer.Option("--output", help="Only all that it said, while it is kept.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """One command with its reason, its verdict, its approver and its output."""
    from operator_sre.app import history

    if output:
        _show_output(context, seq, as_json=as_json)
        return
    with opened(context) as app:
        view = history.show_command(app, seq)
    one = view.command
    if as_json:
        print_json(
            {"command": one, "stdout_file": view.stdout_file, "stderr_file": view.stderr_file}
        )
        return
    facts = (
        ("command", one.command),
        ("why", one.context),
        ("when", f"{one.at:%Y-%m-%d %H:%M:%S} UTC"),
        (
            "who",
            f"{one.agent} ({one.agent_type}), run {one.run or '-'}, ticket {one.ticket or '-'}",
        ),
        ("where", f"{one.target or '-'} in {one.cwd}"),
        ("venv", one.venv),
        ("verdict", f"{one.level}, risk {one.risk}" if one.level else ""),
        ("approver", one.approver),
        ("outcome", f"{_outcome(one)} in {one.duration_s:.2f} s"),
        ("failure", one.category),
        ("hash", one.output_hash),
        ("spool", " ".join(path for path in (view.stdout_file, view.stderr_file) if path)),
    )
    print_lines([f"{name:9} {clean(value)}" for name, value in facts if value])
    print_lines(["", *(clean(line) for line in one.head.splitlines())])
    if one.tail:
        print_lines(["[...]", *(clean(line) for line in one.tail.splitlines())])


def _show_output(context: typer.Context, seq: int, *, as_json: bool) -> None:
    from operator_sre.app.history import show_output
    from operator_sre.faces.cli.live import Screen

    if as_json:
        raise UsageError(
            "A whole output is no document.", next_step="Leave --json or --output away."
        )

    def gone() -> None:
        raise typer.Exit(1)

    with opened(context) as app:
        show_output(app, seq, Screen(gone).show)


@app.command()
def stats(
    context: typer.Context,
    ticket: TicketOption = None,
    run: RunOption = "",
    target: TargetOption = "",
    since: SinceOption = "",
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """How often each command ran, and how often that went well."""
    from operator_sre.app import history

    with opened(context) as app:
        where = history.wanted(app, ticket=ticket, run=run, target=target, since=since)
        figures = history.statistics(app, where)
    if as_json:
        print_json(
            {
                "attempts": figures.attempts,
                "commands": figures.commands[:limit],
                "success_patterns": figures.success_patterns[:limit],
                "failure_patterns": figures.failure_patterns[:limit],
            }
        )
    elif not figures.commands:
        print_lines(["No commands yet."])
    else:
        _print_stats(figures, limit)


@app.command()
def failures(
    context: typer.Context,
    ticket: TicketOption = None,
    run: RunOption = "",
    target: TargetOption = "",
    since: SinceOption = "",
    as_json: JsonOption = False,
) -> None:
    """What failed, by category with examples, and what fails again and again."""
    from operator_sre.app import history

    with opened(context) as app:
        where = history.wanted(app, ticket=ticket, run=run, target=target, since=since)
        found = history.failures(app, where)
    if as_json:
        print_json({"by_category": found.by_category, "patterns": found.patterns})
    elif not found.by_category:
        print_lines(["Nothing has failed."])
    for group in () if as_json else found.by_category:
        print_lines([f"{group.category}: {group.count}"])
        examples = [f"  {one.seq:6}  {_exit(one.exit_code)}{one.command}" for one in group.examples]
        print_lines([clean(line)[:200] for line in examples])
    for one in () if as_json else found.patterns:
        line = f"{one.failures} of {one.runs} failed ({one.category}): {'; '.join(one.lines)}"
        print_lines([clean(line)[:200]])


@app.command()
def venv(
    context: typer.Context,
    ticket: TicketOption = None,
    run: RunOption = "",
    target: TargetOption = "",
    since: SinceOption = "",
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """Commands of Python that ran without a virtual environment."""
    from operator_sre.app import history

    with opened(context) as app:
        where = history.wanted(app, ticket=ticket, run=run, target=target, since=since)
        found = history.venv_report(app, where, limit=limit)
    rows = [(one.attempt.seq, one.advice, one.attempt.command) for one in found]
    head = ("seq", "advice", "command")
    print_list(
        "violations",
        found,
        head,
        rows,
        none="Nothing ran without an environment that needed one.",
        as_json=as_json,
    )


def _print_found(found: FoundCommands, *, as_json: bool) -> None:
    if as_json:
        print_json({"commands": found.commands, "behind": found.behind})
    elif not found.commands:
        print_lines(["No commands."])
    else:
        _print_commands(found.commands)
    if found.behind and not as_json:
        print_lines([f"({found.behind} entries are not in the index yet)"])


def _print_commands(commands: Sequence[Command]) -> None:
    rows = [
        (
            one.seq,
            f"{one.at:%m-%d %H:%M:%S}",
            _outcome(one),
            one.level or "-",
            one.target or "-",
            one.approver or "-",
            one.command[:160],
        )
        for one in commands
    ]
    print_table(("seq", "when", "outcome", "level", "target", "approver", "command"), rows)


def _print_stats(figures: Statistics, limit: int) -> None:
    rows = [
        (
            one.total,
            one.successful,
            one.failed,
            one.refused,
            "-" if one.success_rate is None else f"{one.success_rate:.0%}",
            "-" if one.avg_duration_s is None else f"{one.avg_duration_s:.2f}",
            f"{one.last:%m-%d %H:%M:%S}",
            one.command[:160],
        )
        for one in figures.commands[:limit]
    ]
    head = ("total", "ok", "failed", "refused", "rate", "avg s", "last", "command")
    print_table(head, rows)
    often = [clean(one.command[:160]) for one in figures.success_patterns[:SHOWN_MAX]]
    if often:
        print_lines(["", "Works again and again:", *(f"  {one}" for one in often)])


def _outcome(one: Command) -> str:
    if one.outcome == "ran":
        return f"exit {one.exit_code}"
    return one.outcome or "running"


def _exit(code: int | None) -> str:
    return "" if code is None else f"exit {code}  "
