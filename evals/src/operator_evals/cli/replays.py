"""`operator eval record`, `replay` and `cases`: recorded incidents as test cases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, config_of, open_home
from operator_sre.faces.cli.output import clean, print_facts, print_json, print_lines, print_table
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_evals.app.replays import Replayed

__all__ = ["cases", "record", "register", "replay"]

CASES_MAX = 10_000
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        help="The agent: reasoner, a configured model, scripted:FILE, restart-everything,"
        " random:SEED, none or oracle.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands for recordings to `operator eval`."""
    app.command("record")(record)
    app.command("replay")(replay)
    app.command("cases")(cases)


def record(
    context: typer.Context,
    campaign: Annotated[str, typer.Argument(help="The campaign of the trial.")] = "",
    key: Annotated[str, typer.Argument(help="The trial, as SUBJECT:FAULT/VARIANT/SEED.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; it must not exist.")
    ] = None,
    ticket: Annotated[
        int | None,
        typer.Option(min=1, max=NUMBER_MAX, help="A ticket of this home, or of the trial."),
    ] = None,
    cause: Annotated[str, typer.Option(help="The true cause, if the ticket has it wrong.")] = "",
    target: Annotated[str, typer.Option(help="The target that was at fault.")] = "",
    database: Annotated[
        Path | None,
        typer.Option("--database", help="Read this file instead of eval.db in the home."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Save an incident as a file that other agents can be tested on.

    Name a trial, or a ticket of this home with --ticket. Secrets are redacted as in the ledger.
    """
    from operator_evals.app.campaigns import database_path
    from operator_evals.app.recordings import record_from, record_ticket

    if output is None:
        raise UsageError("No output file given.", next_step="Pass --output FILE.")
    if bool(campaign) != bool(key) or not (campaign or ticket):
        raise UsageError(
            "Name a trial (CAMPAIGN KEY) or a ticket of this home (--ticket N).",
            next_step="See: operator eval show CAMPAIGN, operator tickets list",
        )
    if campaign and (cause or target):
        raise UsageError("The cause of a trial is known: remove --cause and --target.")
    with open_home(context, log_level="error") as app:
        if campaign:
            where = database_path(config_of(context), database)
            kept = record_from(app, where, campaign, key, output, ticket=ticket)
        else:
            kept = record_ticket(app, ticket or 0, output, cause=cause, target=target)
    if as_json:
        print_json({"recorded": kept})
        return
    summary = (
        f"{kept.file}: {kept.incidents} incident(s) of {kept.subject}, {kept.looks} observations,"
        f" {kept.answers} answers, {kept.changes} changes. Ground truth: {kept.source}."
    )
    print_lines([clean(summary)])


def replay(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The recording.")],
    model: ModelOption = "reasoner",
    as_json: JsonOption = False,
) -> None:
    """Replay a recording offline and score the diagnosis. No command runs."""
    from operator_evals.app.replays import replay_file

    with open_home(context, log_level="error") as app:
        done = run_until_stopped(replay_file(app, file, model))
    if as_json:
        print_json({"replayed": done})
    else:
        score = done.score
        found = [
            ("recording", f"{done.recording} ({done.subject})"),
            ("model", done.model),
            ("diagnosis", _describe_claims(done)),
            ("expected", f"{' or '.join(done.causes)} at {done.hit}, by {done.source}"),
            (
                "component",
                f"first: {_word(score.component_at_1)}, of 3: {_word(score.component_at_3)}",
            ),
            ("cause", _word(score.cause_right)),
            ("commands", f"{score.commands} answered, {done.refused} not in the recording"),
            ("cost", f"{score.turns} turns, {done.took_s:.1f} s, {score.tokens} tokens"),
        ]
        if done.instead:
            found.append(
                ("note", f"the model failed {done.instead} times; the reasoner answered instead")
            )
        if done.problem:
            found.append(("problem", done.problem))
        print_facts([(name, clean(text)) for name, text in found])
    raise typer.Exit(1 if done.problem else 0)


def cases(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with Cloud-OpsBench cases.")
    ],
    model: ModelOption = "reasoner",
    limit: Annotated[
        int | None, typer.Option(min=1, max=CASES_MAX, help="Maximum number of cases.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay Cloud-OpsBench cases from their cached answers and score the diagnoses."""
    from operator_evals.app.replays import replay_cases, tally

    def tell(replayed: Replayed) -> None:
        if not as_json:
            marks = "right" if replayed.score.cause_right else "wrong"
            print_lines([clean(f"{marks}  {replayed.recording}  {_describe_claims(replayed)}")])

    with open_home(context, log_level="error") as app:
        done = run_until_stopped(replay_cases(app, folder, model, limit=limit, tell=tell))
    counted = tally(done)
    if as_json:
        print_json({"tally": counted, "cases": done})
    else:
        named = {
            "component first": counted.component_at_1,
            "component in top 3": counted.component_at_3,
            "cause": counted.cause_right,
            "both": counted.joint,
        }
        rows = [
            (
                name,
                counted_share.count,
                counted_share.of,
                percent,
                f"{counted_share.low:.0%} to {counted_share.high:.0%}",
            )
            for name, counted_share in named.items()
            for percent in ["-" if counted_share.value is None else f"{counted_share.value:.0%}"]
        ]
        print_table(("measure", "right", "of", "share", "95 % interval"), rows)
        heads = ("cause", "cases", "component", "cause right", "both", "tokens", "s per case")
        causes = [
            (each.cause, each.of, each.component, each.cause_right, each.joint, each.tokens)
            for each in counted.by_cause
        ]
        times = [f"{each.mean_s:.2f}" for each in counted.by_cause]
        print_table(heads, [(*row, time) for row, time in zip(causes, times, strict=True)])
        cost = f"{counted.tokens} tokens, {counted.usd:.4f} USD, {counted.mean_s:.2f} s per case"
        print_lines([f"{counted.failed} failed, {cost}"])
    raise typer.Exit(1 if counted.failed else 0)


def _describe_claims(done: Replayed) -> str:
    claims = [
        f"{claim.cause} at {claim.target}" if claim.cause else "nothing" for claim in done.said
    ]
    return done.problem or "; ".join(claims) or "nothing"


def _word(right: bool) -> str:
    return "right" if right else "wrong"
