"""`operator eval`: inject faults into real systems, let agents repair them, score the results."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operator_evals.cli import generated, replays, worker
from operator_evals.cli.tables import (
    campaign_rows,
    cell_rows,
    comparison_rows,
    facts_of_trial,
    miss_rows,
    progress_line,
    scenario_rows,
    show_opinions,
    summary_rows,
    trial_line,
    trial_rows,
)
from operator_evals.cli.viewer import export_inspect, register
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.faces.cli.options import JsonOption, config_of, open_home
from operator_sre.faces.cli.output import (
    clean,
    print_facts,
    print_json,
    print_lines,
    print_list,
    print_table,
)
from operator_sre.faces.cli.progress import show_progress
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_evals.app.views import Analysis, Comparison
    from operator_evals.campaign import Campaign
    from operator_evals.conductor import Outcome, Progress
    from operator_sre.config import Config

__all__ = ["app"]

app = typer.Typer(help="Measure how well agents repair real systems.", no_args_is_help=True)
TIMES_MAX = 1000
PARALLEL_MAX = 64
SEED_MAX = 2**31
CAMPAIGN = "campaign"

DatabaseOption = Annotated[
    Path | None, typer.Option("--database", help="Read this file instead of eval.db in the home.")
]
CampaignArgument = Annotated[
    str | None, typer.Argument(metavar="CAMPAIGN", help="The campaign. Default: the newest.")
]


class Format(StrEnum):
    """The export formats of trials."""

    JSON = "json"
    CSV = "csv"
    FACTS = "facts"
    INSPECT = "inspect"


@app.command()
def run(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[campaign FILE]", help="Run the campaign that FILE describes."),
    ] = None,
    subject: Annotated[str | None, typer.Option(help="The subject whose rig is broken.")] = None,
    fault: Annotated[
        str | None, typer.Option("--fault", "--chaos", help="The fault to inject. Default: all.")
    ] = None,
    times: Annotated[
        int,
        typer.Option(
            "-n", "--times", min=1, max=TIMES_MAX, help="Trials of each scenario and variant."
        ),
    ] = 1,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Also run each trial without an agent.")
    ] = False,
    variant: Annotated[
        list[str] | None,
        typer.Option(help="The variant that repairs: a name or a file. Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=SEED_MAX, help="The first seed.")] = 0,
    parallel: Annotated[
        int | None, typer.Option(min=1, max=PARALLEL_MAX, help="Trials that run at the same time.")
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of the campaign. An existing name resumes that campaign.")
    ] = "",
    engine: Annotated[
        str, typer.Option(help="local, or dbos for workers on several machines (eval work).")
    ] = "local",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run trials of one fault, or a campaign from a file.

    Every trial gets a fresh rig, its own home and its own ledger. The whole campaign is validated
    before the first trial starts. Results are kept: Ctrl-C stops the running trials, and the same
    command resumes the campaign later.
    """
    from operator_evals.app.campaigns import Wanted, campaign_from_file, campaign_of

    config = config_of(context, log_level="error")
    words = words or []
    if words:
        if len(words) != 2 or words[0] != CAMPAIGN or subject or fault or variant or baseline:
            raise UsageError(
                "A campaign file takes no --subject, --fault, --variant or --baseline.",
                next_step="Run: operator eval run campaign FILE",
            )
        campaign = campaign_from_file(Path(words[1]), parallel=parallel, name=name)
    elif subject is None:
        raise UsageError(
            "Name a subject or a campaign.",
            next_step="Pass --subject S --fault F, or run: operator eval run campaign FILE",
        )
    else:
        campaign = campaign_of(
            Wanted(
                *(subject, fault or "", times, tuple(variant or ()), baseline, seed),
                *(parallel or 1, name),
            )
        )
    outcome = _run(config, campaign, database, engine=engine, as_json=as_json)
    raise typer.Exit(1 if outcome.failed else 0)


def _run(
    config: Config, campaign: Campaign, database: Path | None, *, engine: str, as_json: bool
) -> Outcome:
    """Run the remaining trials of a campaign, in local processes or on workers."""
    from operator_evals.app.campaigns import database_path, run_campaign
    from operator_evals.app.views import analysis_of
    from operator_lab.cli.demo import this_program

    if engine not in ("local", "dbos"):
        raise UsageError(f"There is no engine {engine!r}.", next_step="Choose one of: local, dbos.")
    shown = ["starting"]

    def tell(progress: Progress) -> None:
        shown[0] = progress_line(progress)
        if progress.last is None:
            return
        if as_json:
            print_json({"trial": progress.last}, line=True)
        else:
            print_lines([clean(trial_line(progress))])

    working: Coroutine[Any, Any, Outcome]
    if engine == "dbos":
        from operator_evals.app.leader import lead_campaign

        working = lead_campaign(config, campaign, tell=tell, database=database)
    else:
        command = this_program()
        working = run_campaign(config, campaign, command=command, tell=tell, database=database)
    with show_progress(lambda: shown[0]):
        outcome = run_until_stopped(working)
    if as_json:
        print_json({"outcome": outcome}, line=True)
    else:
        where = database_path(config, database)
        _show_analysis(analysis_of(where, campaign.name))
        done = outcome.before + outcome.done
        print_lines(
            [
                f"{outcome.campaign}: {done} of {outcome.of} trials done"
                f" ({outcome.invalid} invalid, {outcome.failed} failed just now); facts: {where}",
                *([outcome.why] if outcome.why else []),
            ]
        )
    return outcome


@app.command()
def faults(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="The subject. Default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the scenarios and their correct outcomes."""
    from operator_evals.app.views import every_scenario

    found = every_scenario(subject)
    head, rows = scenario_rows(found)
    print_list("faults", found, head, rows, none="No subject has a rig.", as_json=as_json)


@app.command("list")
def list_(
    context: typer.Context, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """List the campaigns and their progress."""
    from operator_evals.app.views import campaigns_in

    found = campaigns_in(_database(context, database))
    head, rows = campaign_rows(found)
    print_list("campaigns", found, head, rows, none="There is no campaign yet.", as_json=as_json)


@app.command()
def show(
    context: typer.Context,
    campaign: CampaignArgument = None,
    trial: Annotated[
        str | None, typer.Option(help="Show one trial: SUBJECT:FAULT/VARIANT/SEED.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the trials of a campaign, or the details of one trial."""
    from operator_evals.app.views import load_campaign, load_trial

    where = _database(context, database)
    view, trials = load_campaign(where, campaign)
    if trial is not None:
        found = load_trial(where, view.name, trial)
        if as_json:
            print_json({"trial": found})
        else:
            print_facts(facts_of_trial(found))
        return
    if as_json:
        print_json({"campaign": view, "trials": trials})
        return
    machine = ", ".join(f"{key} {value}" for key, value in sorted(view.machine.items()))
    print_lines([clean(f"{view.name}, started {view.started_at}, on {machine}")])
    print_table(*trial_rows(trials))


@app.command()
def analyze(
    context: typer.Context,
    campaign: CampaignArgument = None,
    opinion: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Ask a configured model for a second opinion on commands and causes.",
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print all tables of a campaign, computed from its facts.

    A second opinion changes no score. The model is paid once: its answers are stored with the
    facts.
    """
    from operator_evals.app.views import analysis_of, opinions_on

    where = _database(context, database)
    found = analysis_of(where, campaign)
    second = None
    if opinion is not None:
        with open_home(context, log_level="error") as home:
            second = run_until_stopped(opinions_on(home, where, campaign, opinion))
    if as_json:
        print_json({"analysis": found, **({"opinions": second} if second else {})})
    else:
        _show_analysis(found)
        if second:
            show_opinions(second)
    raise typer.Exit(1 if second and second.problem else 0)


@app.command()
def compare(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help="A variant, or CAMPAIGN/VARIANT.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The variant to compare with.")],
    campaign: Annotated[str | None, typer.Option(help="The campaign. Default: the newest.")] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two variants on the scenarios and seeds that both ran."""
    from operator_evals.app.views import compare_two

    found = compare_two(_database(context, database), first, second, campaign=campaign)
    _show_comparisons([found], as_json=as_json)


@app.command("compare-baseline")
def compare_baseline(
    context: typer.Context,
    campaign: CampaignArgument = None,
    baseline: Annotated[
        str | None, typer.Option(help="The variant to compare with. Default: none.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare every variant with the baseline."""
    from operator_evals.app.views import compare_with_baseline

    where = _database(context, database)
    _show_comparisons(compare_with_baseline(where, campaign, baseline=baseline), as_json=as_json)


@app.command("compare-variants")
def compare_variants(
    context: typer.Context,
    campaign: CampaignArgument = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare every pair of variants of a campaign."""
    from operator_evals.app.views import compare_all

    _show_comparisons(compare_all(_database(context, database), campaign), as_json=as_json)


@app.command()
def export(
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Argument(
            help="The file to write; an existing file is replaced. For inspect: a folder."
        ),
    ],
    campaign: Annotated[str | None, typer.Option(help="The campaign. Default: the newest.")] = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="json: facts and scores. csv: scores. facts: facts only. inspect: logs.",
        ),
    ] = Format.JSON,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export the trials of a campaign as JSON, CSV, publishable facts, or inspect-ai logs.

    Facts are written to NAME.jsonl, which every command accepts as --database.
    """
    from operator_evals.app.views import export_campaign, load_campaign

    where = _database(context, database)
    if format_ is Format.INSPECT:
        files = export_inspect(where, load_campaign(where, campaign)[0].name, output)
        if as_json:
            print_json({"file": str(output), "format": format_.value})
        else:
            print_lines([clean(f"Wrote {len(files)} logs to {output}.")])
        return
    text = export_campaign(where, campaign, format_.value)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OperatorError(
            f"cannot write {str(output)!r}: {error.strerror}.",
            next_step="Name another file.",
        ) from error
    if as_json:
        print_json({"file": str(output), "format": format_.value})
    else:
        print_lines([clean(f"Wrote the trials to {output}.")])


def _database(context: typer.Context, named: Path | None) -> Path:
    from operator_evals.app.campaigns import database_path

    return database_path(config_of(context), named)


def _show_analysis(found: Analysis) -> None:
    for title, (head, rows) in (
        ("variants", summary_rows(found.summaries)),
        ("scenarios: trials with the correct outcome, by variant", cell_rows(found.cells)),
        ("misses", miss_rows(found.misses)),
    ):
        if rows:
            print_lines([title])
            print_table(head, rows)
            print_lines([""])


def _show_comparisons(found: Sequence[Comparison], *, as_json: bool) -> None:
    head, rows = comparison_rows(found)
    none = "No two variants ran the same scenario with the same seed."
    print_list("comparisons", found, head, rows, none=none, as_json=as_json)


generated.register(app)
replays.register(app)
worker.register(app)


register(app)
