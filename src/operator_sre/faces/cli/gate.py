"""`operator gate`: what would be allowed to run."""

from __future__ import annotations

import typer

from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines

__all__ = ["app"]

app = typer.Typer(help="What would be allowed to run.", no_args_is_help=True)
EXIT_CODES = {"safe": 0, "review": 4, "blocked": 3}


@app.callback()
def _noun() -> None:
    return None


@app.command()
def check(context: typer.Context, command: str, as_json: JsonOption = False) -> None:
    """Judge one command without running it. Exit 0 safe, 4 review, 3 blocked."""
    from operator_sre.app.gate import check_command

    verdict = check_command(config_of(context), command)
    if as_json:
        print_json(
            {
                "command": command,
                "level": verdict.level,
                "risk_level": verdict.risk,
                "rules": verdict.rules,
                "explanation": verdict.explanation,
                "policy_digest": verdict.policy_digest,
            }
        )
    else:
        rules = ", ".join(rule.id for rule in verdict.rules)
        print_lines(
            [
                f"{verdict.level.upper()}, risk {verdict.risk}: {clean(verdict.explanation)}",
                f"rule: {rules}",
            ]
        )
    raise typer.Exit(EXIT_CODES[verdict.level])
