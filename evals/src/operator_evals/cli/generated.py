"""`operator eval fuzz`: faults on no list, composed from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_evals.cli.tables import progress_line
from operator_protocols.errors import OperatorError
from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import show_progress
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_evals.app.generated import Ending, Sitting, Wanted
    from operator_evals.conductor import Progress
    from operator_sre.config import Config

__all__ = ["register"]

CASES_MAX = 10_000
SEED_MAX = 2**31
WORKERS_MAX = 64
WORST_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fuzz)


def fuzz(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="The subject whose rig is broken.")],
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=CASES_MAX, help="Number of cases.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, max=SEED_MAX, help="The first seed.")] = 1,
    variant: Annotated[
        str, typer.Option(help="The variant that repairs: a name or a file.")
    ] = "reasoner",
    workers: Annotated[
        int, typer.Option(min=1, max=WORKERS_MAX, help="Cases that run at the same time.")
    ] = 1,
    stand_in: Annotated[
        bool,
        typer.Option("--stand-in", help="Break processes and links only: no real servers."),
    ] = False,
    usd_max: Annotated[
        float, typer.Option(min=0, help="Money that a model may cost in this call, in USD.")
    ] = 0.0,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Shrink the case of --seed, which was run before.")
    ] = False,
    only_show: Annotated[
        bool, typer.Option("--show", help="Run nothing; show the cases of the newest revision.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Write a page with the worst cases to this file.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write all cases to this file, to publish them.")
    ] = None,
    database: Annotated[
        Path | None, typer.Option("--database", help="Use this file instead of eval.db.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Break a rig with generated faults, and judge what its clients see.

    A seed gives one to three primitive faults over everything that the rig has. Results are kept:
    the same command runs only the cases that are missing at this revision, and counts all of them.
    """
    from operator_evals.app.campaigns import database_path
    from operator_evals.app.generated import Wanted, load_generated

    config = config_of(context, log_level="error")
    wanted = Wanted(subject, count, seed, variant, workers, stand_in, usd_max)
    if shrink:
        _shrink(config, wanted, database, as_json=as_json)
        return
    failed = 0 if only_show else _run(config, wanted, database, as_json=as_json)
    found = load_generated(database_path(config, database), subject, variant)
    if page is not None:
        from operator_evals.rendering.generated_page import generated_page

        _write(page, generated_page(found.tally, found.judged, found.machine))
    if export is not None:
        from operator_evals.app.generated import export_generated

        _write(export, export_generated(database_path(config, database), subject))
    if as_json:
        print_json({"tally": found.tally}, line=True)
    else:
        _show(found)
    raise typer.Exit(1 if failed else 0)


def _run(config: Config, wanted: Wanted, database: Path | None, *, as_json: bool) -> int:
    """Run the cases; how many the harness itself failed."""
    from operator_evals.app.generated import run_generated
    from operator_lab.cli.demo import this_program

    shown = ["starting"]

    def tell(progress: Progress, ending: Ending | None) -> None:
        shown[0] = progress_line(progress)
        if progress.last is None or ending is None:
            return
        seen = progress.last.generated
        sentence = seen.case.sentence if seen else progress.last.why
        if as_json:
            print_json({"seed": progress.last.seed, "outcome": ending}, line=True)
        else:
            took = progress.last.moments.ended or 0.0
            line = f"{progress.last.seed:5} {ending.value:18} {took:4.0f} s  {sentence}"
            print_lines([clean(line)])

    working = run_generated(config, wanted, command=this_program(), tell=tell, database=database)
    with show_progress(lambda: shown[0]):
        return run_until_stopped(working).failed


def _shrink(config: Config, wanted: Wanted, database: Path | None, *, as_json: bool) -> None:
    from operator_evals.app.generated import shrink_generated
    from operator_lab.cli.demo import this_program

    def tell(line: str) -> None:
        if not as_json:
            print_lines([clean(line)])

    working = shrink_generated(config, wanted, command=this_program(), tell=tell, database=database)
    case, ending = run_until_stopped(working)
    if as_json:
        print_json({"case": case, "outcome": ending}, line=True)
    else:
        print_lines([clean(f"smallest case that is {ending.value}: {case.sentence}")])


def _show(found: Sitting) -> None:
    from operator_evals.generated.tally import credit_rows

    tally = found.tally
    changed = "+" if tally.revision.endswith("+") else ""
    revision = tally.revision.rstrip("+")[:12] + changed
    head = (
        f"{tally.subject}, {tally.variant}, revision {revision}: {tally.trials} cases,"
        f" seeds {tally.first_seed} to {tally.last_seed}, {tally.void} void"
    )
    rows = [
        (name, f"{each.count}/{each.of}", _percent(each.value), f"{each.low:.0%}-{each.high:.0%}")
        for name, each in (
            ("handled (repaired or escalated usefully)", tally.handled),
            *credit_rows(tally).items(),
            *tally.outcomes.items(),
            ("component named", tally.component_right),
        )
    ]
    print_lines([clean(head)])
    print_table(("outcome", "cases", "share", "95 % interval"), rows)
    trust = found.calibration
    print_lines(
        [
            f"named a cause in {tally.named}, abstained in {tally.abstained}",
            f"Brier score {trust.brier:.3f} of {trust.diagnoses} diagnoses"
            f" ({trust.base:.3f} for a constant guess)",
            f"from a ticket to its first change: {_seconds(tally.first_change_s_median)} (median)",
            "",
        ]
    )
    # A void case was run twice: it counts in no share, so its seed and its reason are shown.
    worst = [
        (bad.seed, bad.outcome.value, bad.case, "; ".join(bad.why))
        for bad in (*tally.worst[:WORST_SHOWN], *tally.void_cases)
    ]
    print_table(("seed", "outcome", "case", "why"), worst)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OperatorError(
            f"cannot write {str(file)!r}: {error.strerror}.", next_step="Name another file."
        ) from error
