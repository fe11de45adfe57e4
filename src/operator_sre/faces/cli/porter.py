"""`operator porter`: who stands before a Docker engine, so that an agent needs not be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operator_sre.faces.cli.listeners import say_listening
from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import print_json, print_lines
from operator_sre.faces.cli.signals import run_until_stopped

__all__ = ["app"]

app = typer.Typer(help="Let an agent reach one lab's containers.", no_args_is_help=True)
SocketOption = Annotated[Path, typer.Option("--socket", help="Where the porter listens.")]
PLACE = Path("/run/porter/docker.sock")


@app.command()
def serve(
    context: typer.Context,
    project: Annotated[str, typer.Option(help="The compose project whose containers they are.")],
    place: SocketOption = PLACE,
    engine: Annotated[
        Path | None, typer.Option(help="The engine's socket; else that of this machine.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Pass on to Docker what is about one lab's containers, and refuse all else, until stopped."""
    from operator_sre.app.porter import keep, post_of

    config_of(context)
    post = post_of(project, place, engine)
    run_until_stopped(keep(post, ready=lambda url: say_listening([url], as_json=as_json)))


@app.command("test")
def try_(
    context: typer.Context,
    place: SocketOption = PLACE,
    as_json: JsonOption = False,
) -> None:
    """Does Docker answer through a porter? Exit 1 when it does not."""
    from operator_sre.app.porter import look_behind

    config_of(context)
    behind = run_until_stopped(look_behind(place))
    if as_json:
        print_json({"porter": behind})
    else:
        number = behind.containers
        print_lines(
            [f"Docker {behind.version} answers at {behind.place}; containers of the lab: {number}."]
        )
