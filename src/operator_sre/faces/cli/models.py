"""`operator models`: the models, their cost, and a test request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import OperatorError
from operator_sre.drawing import plural
from operator_sre.faces.cli.options import JsonOption, config_of, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    pass

__all__ = ["app"]

app = typer.Typer(help="List and test models, and show their cost.", no_args_is_help=True)


@app.command("list")
def list_(context: typer.Context, as_json: JsonOption = False) -> None:
    """List configured models with today's cost (UTC)."""
    from operator_sre.app.models import list_models
    from operator_sre.app.wiring import look_at_app

    with look_at_app(config_of(context)) as home:
        found = list_models(home)
    if as_json:
        print_json({"models": found})
        return
    rows = [
        (
            model.name,
            model.provider,
            model.model or "-",
            model.host or "-",
            model.key,
            "-"
            if model.prices is None
            else f"{model.prices['input']:g}/{model.prices['output']:g}",
            f"{model.today.tokens:,} tokens, ${model.today.usd:.2f}",
            model.use or "-",
        )
        for model in found
    ]
    head = ("name", "provider", "model", "host", "key", "$/million in/out", "today", "use")
    print_table(head, rows)


@app.command("test")
def try_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The model name; the active one by default.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Send a model one short request. Exit 1 if it fails."""
    from operator_sre.app.models import thinking_model, try_model

    with open_home(context) as home:
        wanted = name or thinking_model(home.config)
        with waiting(f"asking {clean(wanted)}"):
            tried = run_until_stopped(try_model(home, wanted))
    if as_json:
        print_json({"tried": tried})
    elif tried.problem:
        print_lines([f"{tried.name}: {clean(tried.problem)}"])
    else:
        spent, how = tried.spent, f" ({tried.how})" if tried.how else ""
        cost = f"{spent.tokens_in} tokens in, {spent.tokens_out} out, ${spent.usd:.4f}"
        print_lines([f"{tried.name}: answered in {tried.seconds:.2f} s, {cost}; tools work{how}."])
    raise typer.Exit(1 if tried.problem else 0)


@app.command()
def transcript(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="The run id.")],
    file: Annotated[
        Path | None, typer.Argument(help="The file to write; stdout by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a model's answers in a run, for replay with --model scripted:FILE."""
    from operator_sre.app.models import script_of, transcript_of

    with open_home(context) as home:
        answers = transcript_of(home, run)
    if file is not None:
        try:
            file.write_text(script_of(answers), encoding="utf-8")
        except OSError as error:
            raise OperatorError(f"{str(file)!r} cannot be written: {error.strerror}.") from error
    if as_json:
        shown = {"answers": answers} if file is None else {"file": str(file), "count": len(answers)}
        print_json(shown)
    elif file is None:
        typer.echo(script_of(answers), nl=False)
    else:
        print_lines([f"{plural(len(answers), 'answer')} written to {file}."])
