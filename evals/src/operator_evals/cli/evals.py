"""`operator eval`: break a real system in many ways, let minds repair it, and count."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operator_evals.cli import replays, worker
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
from operator_sre.faces.cli.options import JsonOption, config_of, opened
from operator_sre.faces.cli.output import (
    clean,
    print_facts,
    print_json,
    print_lines,
    print_list,
    print_table,
)
from operator_sre.faces.cli.progress import told
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_evals.app.views import Analysis, Comparison
    from operator_evals.campaign import Campaign
    from operator_evals.conductor import Outcome, Progress
    from operator_sre.config import Config

__all__ = ["app"]

app = typer.Typer(help="Measure how well agents repair real failures.", no_args_is_help=True)
TIMES_MAX = 1000
PARALLEL_MAX = 64
SEED_MAX = 2**31
CAMPAIGN = "campaign"

DatabaseOption = Annotated[
    Path | None,
    typer.Option("--database", help="The results database; eval.db of the home by default."),
]
CampaignArgument = Annotated[
    str | None, typer.Argument(metavar="CAMPAIGN", help="The campaign; the newest by default.")
]


class Format(StrEnum):
    """What trials are exported as."""

    JSON = "json"
    CSV = "csv"
    FACTS = "facts"
    INSPECT = "inspect"


@app.command()
def run(
    context: typer.Context,
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[campaign FILE]", help="A campaign file.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="The subject.")] = None,
    fault: Annotated[
        str | None, typer.Option("--fault", "--chaos", help="The fault; all by default.")
    ] = None,
    times: Annotated[
        int,
        typer.Option("-n", "--times", min=1, max=TIMES_MAX, help="Trials per fault and variant."),
    ] = 1,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Also run each trial without an agent.")
    ] = False,
    variant: Annotated[
        list[str] | None, typer.Option(help="A variant name or file; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=SEED_MAX, help="The first seed.")] = 0,
    parallel: Annotated[
        int | None, typer.Option(min=1, max=PARALLEL_MAX, help="Number of parallel trials.")
    ] = None,
    name: Annotated[str, typer.Option(help="The campaign name; an existing name resumes.")] = "",
    engine: Annotated[
        str, typer.Option(help="local, or dbos for workers on several machines (eval work).")
    ] = "local",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run trials of a fault, or a whole campaign from a file.

    Each trial has its own rig, home and ledger. Everything is validated before the first trial.
    Finished trials are kept: after Ctrl-C, the same command resumes.
    """
    from operator_evals.app.campaigns import Wanted, campaign_from_file, campaign_of

    config = config_of(context, log_level="error")
    words = what or []
    if words:
        if len(words) != 2 or words[0] != CAMPAIGN or subject or fault or variant or baseline:
            raise UsageError(
                "A campaign is named by its file alone.",
                next_step="Say: operator eval run campaign FILE",
            )
        campaign = campaign_from_file(Path(words[1]), parallel=parallel, name=name)
    elif subject is None:
        raise UsageError(
            "Name a subject, or a campaign.",
            next_step="Say --subject S --fault F, or: operator eval run campaign FILE",
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
    """Do what is left of a campaign: by processes of ours, or by workers on any machine."""
    from operator_evals.app.campaigns import database_path, run_campaign
    from operator_evals.app.views import analysis_of
    from operator_lab.cli.demo import this_program

    if engine not in ("local", "dbos"):
        raise UsageError(f"There is no engine {engine!r}.", next_step="Choose one of: local, dbos.")
    shown = ["working"]

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
    with told(lambda: shown[0]):
        outcome = run_until_stopped(working)
    if as_json:
        print_json({"outcome": outcome}, line=True)
    else:
        where = database_path(config, database)
        _show_analysis(analysis_of(where, campaign.name))
        done = outcome.before + outcome.done
        print_lines(
            [
                f"{outcome.campaign}: {done} of {outcome.of} trials are done"
                f" ({outcome.invalid} invalid, {outcome.failed} failed now); facts: {where}",
                *([outcome.why] if outcome.why else []),
            ]
        )
    return outcome


@app.command()
def faults(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="The subject; all by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List scenarios with their correct outcome."""
    from operator_evals.app.views import every_scenario

    found = every_scenario(subject)
    head, rows = scenario_rows(found)
    print_list("faults", found, head, rows, none="No subject has a rig.", as_json=as_json)


@app.command("list")
def list_(
    context: typer.Context, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """List campaigns and their progress."""
    from operator_evals.app.views import campaigns_in

    found = campaigns_in(_database(context, database))
    head, rows = campaign_rows(found)
    print_list("campaigns", found, head, rows, none="There is no campaign yet.", as_json=as_json)


@app.command()
def show(
    context: typer.Context,
    campaign: CampaignArgument = None,
    trial: Annotated[
        str | None, typer.Option(help="The trial, as SUBJECT:FAULT/VARIANT/SEED.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the trials of a campaign, or one trial in full."""
    from operator_evals.app.views import shown_campaign, shown_trial

    where = _database(context, database)
    view, trials = shown_campaign(where, campaign)
    if trial is not None:
        found = shown_trial(where, view.name, trial)
        if as_json:
            print_json({"trial": found})
        else:
            print_facts(facts_of_trial(found))
        return
    if as_json:
        print_json({"campaign": view, "trials": trials})
        return
    machine = ", ".join(f"{key} {value}" for key, value in sorted(view.machine.items()))
    print_lines([clean(f"{view.name}, begun {view.started_at}, on {machine}")])
    print_table(*trial_rows(trials))


@app.command()
def analyze(
    context: typer.Context,
    campaign: CampaignArgument = None,
    opinion: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Ask this configured model once for its opinion of commands and causes.",
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute all tables of a campaign from its facts.

    A second opinion changes no score. It costs money only once: answers are stored with the facts.
    """
    from operator_evals.app.views import analysis_of, opinions_on

    where = _database(context, database)
    found = analysis_of(where, campaign)
    second = None
    if opinion is not None:
        with opened(context, log_level="error") as home:
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
    campaign: Annotated[
        str | None, typer.Option(help="The campaign; the newest by default.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two variants on the trials that both completed."""
    from operator_evals.app.views import compared

    found = compared(_database(context, database), first, second, campaign=campaign)
    _show_comparisons([found], as_json=as_json)


@app.command("compare-baseline")
def compare_baseline(
    context: typer.Context,
    campaign: CampaignArgument = None,
    baseline: Annotated[
        str | None, typer.Option(help="The baseline variant; 'none' by default.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare every variant with the baseline without an agent."""
    from operator_evals.app.views import compared_with_baseline

    where = _database(context, database)
    _show_comparisons(compared_with_baseline(where, campaign, baseline=baseline), as_json=as_json)


@app.command("compare-variants")
def compare_variants(
    context: typer.Context,
    campaign: CampaignArgument = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare every pair of variants of a campaign."""
    from operator_evals.app.views import every_comparison

    _show_comparisons(every_comparison(_database(context, database), campaign), as_json=as_json)


@app.command()
def export(
    context: typer.Context,
    output: Annotated[
        Path, typer.Argument(help="The file to write, replacing it; a directory for inspect.")
    ],
    campaign: Annotated[
        str | None, typer.Option(help="The campaign; the newest by default.")
    ] = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format", help="Facts and scores (json), scores (csv), facts, or logs (inspect)."
        ),
    ] = Format.JSON,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export the trials of a campaign: JSON, CSV, facts to publish, or inspect-ai logs.

    Facts go to NAME.jsonl, which every command accepts as --database.
    """
    from operator_evals.app.views import exported, shown_campaign

    where = _database(context, database)
    if format_ is Format.INSPECT:
        files = export_inspect(where, shown_campaign(where, campaign)[0].name, output)
        if as_json:
            print_json({"file": str(output), "format": format_.value})
        else:
            print_lines([clean(f"{len(files)} logs are in {output}.")])
        return
    text = exported(where, campaign, format_.value)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OperatorError(
            f"{str(output)!r} could not be written: {error.strerror}.",
            next_step="Name another file.",
        ) from error
    if as_json:
        print_json({"file": str(output), "format": format_.value})
    else:
        print_lines([clean(f"The trials are in {output}.")])


def _database(context: typer.Context, named: Path | None) -> Path:
    from operator_evals.app.campaigns import database_path

    return database_path(config_of(context), named)


def _show_analysis(found: Analysis) -> None:
    for title, (head, rows) in (
        ("variants", summary_rows(found.summaries)),
        ("scenarios: how often each variant came to the right end", cell_rows(found.cells)),
        ("what was missed", miss_rows(found.misses)),
    ):
        if rows:
            print_lines([title])
            print_table(head, rows)
            print_lines([""])


def _show_comparisons(found: Sequence[Comparison], *, as_json: bool) -> None:
    head, rows = comparison_rows(found)
    none = "No two variants have a trial in common."
    print_list("comparisons", found, head, rows, none=none, as_json=as_json)


replays.register(app)
worker.register(app)


register(app)
