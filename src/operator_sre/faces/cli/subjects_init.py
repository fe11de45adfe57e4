"""`operator subjects init` and `test`: a system of one's own, described in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.describing import Trial

__all__ = ["init", "try_out"]

_WAYS = {
    "runs": "runs by itself",
    "asks": "asks a person",
    "proposes": "is only proposed",
    "held": "does not run now",
    "never": "never runs",
}


def init(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the subject is called.")] = "",
    kind: Annotated[str, typer.Option(help="web, redis, postgres or blank.")] = "web",
    as_json: JsonOption = False,
) -> None:
    """Write a commented description NAME.yaml, and add it to operator.toml. Overwrites nothing."""
    from operator_sre.app.describing import write_description

    config = config_of(context)
    written = write_description(config, name or f"my-{kind}", kind, folder=Path.cwd())
    if as_json:
        print_json({"written": written})
        return
    print_lines(
        [
            clean(f"wrote   {written.file}"),
            clean(f"added   [subjects.{written.name}] to {written.config}"),
            "next    say in it what your system is, then try it:",
            clean(f"        operator subjects test {Path(written.file).name}"),
        ]
    )


def try_out(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A description, such as shop.yaml.")],
    as_json: JsonOption = False,
) -> None:
    """Check a description, ask every probe once, check every invariant, judge every lever.

    Exit 0 when all is healthy, 1 when something is broken or not known, 2 when the file is wrong.
    """
    from operator_sre.app.describing import try_description

    with waiting("asking every probe"):
        trial = run_until_stopped(try_description(config_of(context), file))
    if as_json:
        print_json({"trial": trial})
    else:
        _print(trial)
    raise typer.Exit(0 if trial.health == "healthy" else 1)


def _print(trial: Trial) -> None:
    rows: list[tuple[object, ...]]
    rows = [(one.target, one.reading, _shown(one.value)) for one in trial.readings]
    print_table(("target", "reading", "value"), rows)
    for target, problem in trial.problems:
        print_lines([clean(f"{target} cannot be seen: {problem}")])
    print_lines([""])
    found = sorted(trial.findings, key=lambda one: -one.health.rank)
    rows = [(one.health, one.target, one.invariant, one.detail or "-") for one in found]
    print_table(("health", "target", "invariant", "because"), rows)
    if trial.levers:
        print_lines([""])
        rows = [
            (
                one.tool,
                one.target or "-",
                one.risk,
                _WAYS[one.now],
                _WAYS[one.in_execute],
                " ".join(part for part in (one.sentence, one.why) if part),
            )
            for one in trial.levers
        ]
        head = ("lever", "at", "risk", "now it", "in mode execute it", "it does")
        print_table(head, rows)
    print_lines(["", clean(f"{trial.subject} is {trial.health}.")])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
