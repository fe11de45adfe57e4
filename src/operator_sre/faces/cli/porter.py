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

app = typer.Typer(help="Give an agent access to one lab's containers only.", no_args_is_help=True)
SocketOption = Annotated[Path, typer.Option("--socket", help="The porter's socket.")]
PLACE = Path("/run/porter/docker.sock")


@app.command()
def serve(
    context: typer.Context,
    project: Annotated[str, typer.Option(help="The compose project whose containers are allowed.")],
    place: SocketOption = PLACE,
    engine: Annotated[
        Path | None, typer.Option(help="The Docker socket; this machine's by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Proxy Docker for one lab's containers until stopped. Refuses all other requests."""
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
    """Test whether Docker answers through a porter. Exit 1 if not."""
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
