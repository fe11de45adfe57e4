"""`operator eval record`, `replay` and `cases`: incidents of yesterday for minds of today."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, config_of, opened
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
        help="Who works on it: reasoner, a configured model, scripted:FILE, restart-everything,"
        " random:SEED, none or oracle.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add what works with records to the noun `eval`."""
    app.command("record")(record)
    app.command("replay")(replay)
    app.command("cases")(cases)


def record(
    context: typer.Context,
    campaign: Annotated[str, typer.Argument(help="The campaign of the trial.")] = "",
    key: Annotated[str, typer.Argument(help="The trial, as SUBJECT:FAULT/VARIANT/SEED.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to create.")
    ] = None,
    ticket: Annotated[
        int | None,
        typer.Option(min=1, max=NUMBER_MAX, help="A ticket of this home or of the trial."),
    ] = None,
    cause: Annotated[str, typer.Option(help="The true cause, if you know it.")] = "",
    target: Annotated[str, typer.Option(help="The target at fault.")] = "",
    database: Annotated[
        Path | None,
        typer.Option("--database", help="The results database; eval.db of the home by default."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Record an incident for replay by other models.

    Name a trial, or a ticket of this home with --ticket. Secrets are redacted as in the ledger.
    """
    from operator_evals.app.campaigns import database_path
    from operator_evals.app.recordings import record_from, record_ticket

    if output is None:
        raise UsageError("Name a file for the recording.", next_step="Say --output FILE")
    if bool(campaign) != bool(key) or not (campaign or ticket):
        raise UsageError(
            "Name a trial (CAMPAIGN KEY) or a ticket of this home (--ticket N).",
            next_step="See: operator eval show CAMPAIGN, operator tickets list",
        )
    if campaign and (cause or target):
        raise UsageError("The truth about a trial is known: leave --cause and --target out.")
    with opened(context, log_level="error") as app:
        if campaign:
            where = database_path(config_of(context), database)
            kept = record_from(app, where, campaign, key, output, ticket=ticket)
        else:
            kept = record_ticket(app, ticket or 0, output, cause=cause, target=target)
    if as_json:
        print_json({"recorded": kept})
        return
    told = (
        f"{kept.file}: {kept.incidents} incident(s) of {kept.subject}, {kept.looks} looks,"
        f" {kept.answers} answers, {kept.changes} changes. The truth is known by {kept.source}."
    )
    print_lines([clean(told)])


def replay(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The recording file.")],
    model: ModelOption = "reasoner",
    as_json: JsonOption = False,
) -> None:
    """Replay a recording offline with a model, and score its diagnosis. Runs nothing."""
    from operator_evals.app.replays import replay_file

    with opened(context, log_level="error") as app:
        done = run_until_stopped(replay_file(app, file, model))
    if as_json:
        print_json({"replayed": done})
    else:
        score = done.score
        found = [
            ("recording", f"{done.recording} ({done.subject})"),
            ("model", done.model),
            ("said", _said(done)),
            ("expected", f"{' or '.join(done.causes)} at {done.hit}, by {done.source}"),
            (
                "component",
                f"first: {_word(score.component_at_1)}, of 3: {_word(score.component_at_3)}",
            ),
            ("cause", _word(score.cause_right)),
            ("commands", f"{score.commands} answered, {done.refused} not in the recording"),
            ("took", f"{score.turns} turns, {done.took_s:.1f} s, {score.tokens} tokens"),
        ]
        if done.instead:
            found.append(
                ("note", f"the reasoner spoke {done.instead} times, as the model could not")
            )
        if done.problem:
            found.append(("problem", done.problem))
        print_facts([(name, clean(text)) for name, text in found])
    raise typer.Exit(1 if done.problem else 0)


def cases(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory of Cloud-OpsBench cases.")
    ],
    model: ModelOption = "reasoner",
    limit: Annotated[
        int | None, typer.Option(min=1, max=CASES_MAX, help="Maximum number of cases.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run Cloud-OpsBench cases offline with a model, from their cached answers."""
    from operator_evals.app.replays import replay_cases, tally

    def tell(one: Replayed) -> None:
        if not as_json:
            marks = "right" if one.score.cause_right else "wrong"
            print_lines([clean(f"{marks}  {one.recording}  {_said(one)}")])

    with opened(context, log_level="error") as app:
        done = run_until_stopped(replay_cases(app, folder, model, limit=limit, tell=tell))
    counted = tally(done)
    if as_json:
        print_json({"tally": counted, "cases": done})
    else:
        named = {
            "component first": counted.component_at_1,
            "component of three": counted.component_at_3,
            "cause": counted.cause_right,
            "both": counted.joint,
        }
        rows = [
            (name, one.count, one.of, percent, f"{one.low:.0%} to {one.high:.0%}")
            for name, one in named.items()
            for percent in ["-" if one.value is None else f"{one.value:.0%}"]
        ]
        print_table(("measure", "right", "of", "share", "95 % interval"), rows)
        print_lines([f"{counted.failed} failed, {counted.tokens} tokens, {counted.usd:.4f} USD"])
    raise typer.Exit(1 if counted.failed else 0)


def _said(done: Replayed) -> str:
    told = [f"{one.cause} at {one.target}" if one.cause else "nothing" for one in done.said]
    return done.problem or "; ".join(told) or "nothing"


def _word(right: bool) -> str:
    return "right" if right else "wrong"
