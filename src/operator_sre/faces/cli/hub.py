"""`operator hub`: its operations, and `listen`, which prints messages until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.noun import arrange, noun_of
from operator_sre.faces.cli.options import NUMBER_MAX, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.operations import hub

if TYPE_CHECKING:
    from operator_sre.app.hub import Hub

__all__ = ["app"]

app = noun_of(hub)


@app.command("listen")
def listen(
    context: typer.Context,
    agent: Annotated[str, typer.Option("--agent", help="The agent name.")] = "",
    after: Annotated[
        int, typer.Option(min=0, max=NUMBER_MAX, help="Only messages after this entry.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each message as a JSON document on its own line.")
    ] = False,
) -> None:
    """Print messages to one agent or to all until stopped."""
    from operator_sre.app.hub import Hub

    async def hear(hub: Hub) -> None:
        async for message in hub.subscribe(agent, after=after):
            if as_json:
                print_json({"message": message}, line=True)
            else:
                place = f"{message.seq:6}  {message.at:%H:%M:%S}  {message.agent}  {message.action}"
                words = f"{place}  {message.kind}  {message.text.strip()}"
                print_lines([clean(words.rstrip())])

    with open_home(context) as home:
        run_until_stopped(hear(Hub(home)))


arrange(app, "request", "result", "pending", "approve", "listen")
