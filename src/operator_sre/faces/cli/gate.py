"""`operator gate`: judges commands without running them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines

if TYPE_CHECKING:
    from operator_protocols.domain.verdict import Verdict

__all__ = ["app"]

app = typer.Typer(help="Judge commands without running them.", no_args_is_help=True)
_PERSON = {"": None, "person": True, "agent": False}
EXIT_CODES = {"safe": 0, "review": 4, "blocked": 3}


@app.callback()
def _noun() -> None:
    return None


@app.command()
def check(
    context: typer.Context,
    command: Annotated[str | None, typer.Argument(help="One quoted command line.")] = None,
    cwd: Annotated[
        str, typer.Option(help="The working directory; the current one by default.")
    ] = "",
    stdin: Annotated[bool, typer.Option("--stdin", help="Judge JSON lines from stdin.")] = False,
    asks: Annotated[
        str, typer.Option("--as", help="Judge for an agent or a person; the caller by default.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Judge a command without running it. Exit 0 safe, 4 review, 3 blocked.

    With --stdin, each input line is a JSON string, or an object with `command` and optionally
    `cwd`. Each produces one JSON line, in order.
    """
    if asks not in _PERSON:
        raise UsageError(
            f"{asks!r} is not a valid value for --as.", next_step="Use --as agent or --as person."
        )
    person = _PERSON[asks]
    if stdin:
        if command is not None or not as_json:
            raise UsageError(
                "--stdin needs --json, and takes no COMMAND.",
                next_step="Try: operator gate check --stdin --json < commands.jsonl",
            )
        from operator_sre.app.policy import check_lines

        for answer in check_lines(config_of(context), sys.stdin.buffer, person=person):
            print_json(answer, line=True)
        return
    if command is None:
        raise UsageError("No command to judge.", next_step="Try: operator gate check 'ls'")
    from operator_sre.app.policy import answer_of, check_command

    where = str(Path(cwd).absolute())
    verdict = check_command(config_of(context), command, cwd=where, person=person)
    if as_json:
        print_json(answer_of(verdict))
    else:
        print_lines(_describe_verdict(verdict))
    raise typer.Exit(EXIT_CODES[verdict.level])


def _describe_verdict(verdict: Verdict) -> list[str]:
    """A verdict as text."""
    lines = [
        f"{verdict.level.upper()}, risk {verdict.risk} ({verdict.score}): "
        f"{clean(verdict.explanation)}"
    ]
    touched = {
        "reads": verdict.reads,
        "writes": verdict.writes,
        "network": verdict.network,
        "secrets": verdict.sensitive,
    }
    lines += [
        f"  {name:<8} {clean(', '.join(found[:6]))}" for name, found in touched.items() if found
    ]
    if verdict.confinement is not None:
        lines.append(f"  enforced {clean(str(verdict.confinement))}")
    else:
        lines.append(f"  enforced no, judged only: {clean(verdict.unenforced)}")
    if verdict.reversible is False:
        lines.append("  undo     no")
    lines += [
        f"  rule     {rule.id}: {clean(rule.justification)}"
        for rule in verdict.rules
        if rule.justification != verdict.explanation or rule is verdict.rules[0]
    ]
    if verdict.safer:
        lines.append(f"  safer    {clean(verdict.safer)}")
    return lines
