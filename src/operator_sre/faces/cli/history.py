"""`operator history`: every command, run or refused, and patterns of what worked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.app.history import (
    create_pattern,
    delete_pattern,
    list_patterns,
    show_command,
    show_output,
    show_pattern,
    use_pattern,
)
from operator_sre.drawing import plural
from operator_sre.faces.cli.noun import arrange, noun_of, show
from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, ReasonOption, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.operations import history

__all__ = ["app"]

app = noun_of(history)
patterns = typer.Typer(help="Reuse command lines that worked before.", no_args_is_help=True)
app.add_typer(patterns, name="patterns")
NameArgument = Annotated[str, typer.Argument(help="The pattern name.")]


@app.command("show")
def show_(
    context: typer.Context,
    seq: Annotated[int, typer.Argument(max=NUMBER_MAX, help="The number from the list.")],
    output: Annotated[
        bool, typer.Option("--output", help="Print the full output, if it is still stored.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a command with its reason, verdict, approver and output."""
    from operator_sre.faces.cli.progress import Screen

    def leave() -> None:
        raise typer.Exit(1)

    if output and as_json:
        raise UsageError(
            "--output cannot be combined with --json.", next_step="Remove one of them."
        )
    with open_home(context) as app:
        if output:
            show_output(app, seq, Screen(leave).show)
            return
        view = show_command(app, seq)
    if as_json:
        files = {"stdout_file": view.stdout_file, "stderr_file": view.stderr_file}
        print_json({"command": view.command, **files})
    else:
        show(history.command_lines(view))


arrange(app, "list", "search", "show", "stats", "failures", "venv")


@patterns.command("list")
def list_patterns_(
    context: typer.Context,
    like: Annotated[str, typer.Option(help="Only patterns that match this need.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of rows.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List patterns: those people created, then those learned from repeated success."""
    with open_home(context) as app:
        found = list_patterns(app, like=like)[:limit]
    head = ("name", "category", "uses", "rate", "lines")
    rows = []
    for pattern in found:
        rate = "-" if pattern.success_rate is None else f"{pattern.success_rate:.0%}"
        lines = "; ".join(pattern.lines)[:160]
        rows.append((pattern.name, pattern.category, pattern.uses, rate, lines))
    print_list("patterns", found, head, rows, none="No patterns.", as_json=as_json)


@patterns.command("show")
def show_pattern_(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Show a pattern with its placeholders and preconditions."""
    with open_home(context) as app:
        pattern = show_pattern(app, name)
    if as_json:
        print_json({"pattern": pattern})
        return
    origin = "learned" if pattern.learned else f"created by {pattern.made_by}"
    rate = "-" if pattern.success_rate is None else f"{pattern.success_rate:.0%}"
    print_lines(
        [f"{pattern.name}: {pattern.category}, {origin}, {pattern.uses} uses, success {rate}"]
    )
    print_lines([f"  {clean(line)}" for line in pattern.lines])
    for placeholder in pattern.placeholders:
        seen = ", ".join(pattern.examples.get(placeholder, ()))
        print_lines([f"  {{{placeholder}}}{f'  such as {clean(seen)}' if seen else ''}"])
    print_lines(
        [f"  needs {key}: {clean(str(value))}" for key, value in pattern.preconditions.items()]
    )
    print_lines([f"  for: {clean(text)}" for text in pattern.contexts])


@patterns.command("create")
def create_(
    context: typer.Context,
    name: NameArgument,
    lines: Annotated[list[str], typer.Argument(help="The command lines, with {placeholders}.")],
    category: Annotated[str, typer.Option(help="The category.")] = "",
    precondition: Annotated[
        list[str] | None, typer.Option(help="A precondition as key=value; may be repeated.")
    ] = None,
    why: Annotated[str, typer.Option("--for", help="The need it meets, in plain words.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Create a pattern."""
    needs = _pairs(precondition or [])
    with open_home(context) as app:
        work = create_pattern(app, name, lines, category=category, preconditions=needs, context=why)
        made = run_until_stopped(work)
    if as_json:
        print_json({"pattern": made})
    else:
        print_lines([f"Created pattern {made.name!r} with {plural(len(made.lines), 'line')}."])


@patterns.command("use")
def use_(
    context: typer.Context,
    name: NameArgument,
    values: Annotated[list[str] | None, typer.Argument(help="placeholder=value ...")] = None,
    subject: Annotated[str, typer.Option(help="Judge with this subject's policy.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Fill in a pattern and print its commands with their verdicts. Runs nothing."""
    given = _pairs(values or [])
    with open_home(context) as app:
        filled = run_until_stopped(use_pattern(app, name, given, subject=subject))
    if as_json:
        judged = [
            {
                "command": line,
                "level": verdict.level,
                "risk_level": verdict.risk,
                "rules": verdict.rules,
                "explanation": verdict.explanation,
            }
            for line, verdict in zip(filled.lines, filled.verdicts, strict=True)
        ]
        print_json({"pattern": filled.pattern.name, "level": filled.level, "lines": judged})
        return
    for line, verdict in zip(filled.lines, filled.verdicts, strict=True):
        print_lines([clean(line)])
        print_lines(
            [f"  {verdict.level.upper()}, risk {verdict.risk}: {clean(verdict.explanation)}"]
        )


@patterns.command("delete")
def delete_(
    context: typer.Context,
    name: NameArgument,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Delete a pattern. The audit log keeps its definition."""
    with open_home(context) as app:
        run_until_stopped(delete_pattern(app, name, reason=reason))
    if as_json:
        print_json({"deleted": name})
    else:
        print_lines([f"Pattern {name!r} is deleted."])


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise UsageError(
                f"{key!r} is not a valid key=value pair.", next_step="Write it as name=value."
            )
    return {key: value for key, _, value in pairs}
