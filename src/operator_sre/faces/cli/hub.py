"""`operator hub`: where agents of any kind ask for actions, and hear what became of theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, ReasonOption, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.hub import Hub

__all__ = ["app"]

app = typer.Typer(help="Exchange actions and results with other agents.", no_args_is_help=True)
ActionArgument = Annotated[str, typer.Argument(help="The action id.")]
AgentOption = Annotated[str, typer.Option("--agent", help="The agent name.")]


@app.command()
def request(
    context: typer.Context,
    command: Annotated[str, typer.Argument(help="One quoted command line.")],
    agent: AgentOption,
    kind: Annotated[str, typer.Option("--type", help="The kind of agent.")] = "agent",
    subject: Annotated[
        str, typer.Option(help="The subject it acts on; this machine by default.")
    ] = "",
    cwd: Annotated[
        str, typer.Option(help="The working directory; the current one by default.")
    ] = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Request an action. A running agent of this home executes it."""
    from dataclasses import replace

    from operator_protocols.domain.action import Action
    from operator_sre.app.hub import Agent, Hub

    action = replace(Action.shell(command, reasoning=reason), cwd=str(Path(cwd).absolute()))
    with open_home(context) as home:
        asking = Hub(home).request_system_action(Agent(agent, kind), action, subject=subject)
        name = run_until_stopped(asking)
    if as_json:
        print_json({"action": name})
    else:
        print_lines([name])


@app.command()
def result(
    context: typer.Context, action: ActionArgument, agent: AgentOption, as_json: JsonOption = False
) -> None:
    """Show the result of an agent's action. Exit 0 when it completed, else 1."""
    from operator_sre.app.hub import Hub

    with open_home(context) as home:
        found = Hub(home).get_action_result(action, agent)
    if as_json:
        print_json({"result": found})
    else:
        print_lines([clean(f"{action} is {found.state}. {found.reason}".rstrip())])
        output = f"{found.result.stdout}{found.result.stderr}" if found.result else ""
        print_lines([clean(line) for line in output.splitlines()])
    raise typer.Exit(0 if found.state == "completed" else 1)


@app.command()
def pending(context: typer.Context, agent: AgentOption = "", as_json: JsonOption = False) -> None:
    """List unfinished actions of one agent or of all, oldest first."""
    from operator_sre.app.hub import Hub

    with open_home(context) as home:
        found = Hub(home).get_pending_actions(agent)
    rows = [
        (
            action.action,
            action.agent.name,
            action.state,
            "pending" if action.approval else "-",
            action.what.command,
        )
        for action in found
    ]
    head = ("id", "agent", "state", "approval", "what")
    print_list("actions", found, head, rows, none="No unfinished actions.", as_json=as_json)


@app.command()
def approve(
    context: typer.Context,
    action: ActionArgument,
    no: Annotated[bool, typer.Option("--reject", help="Reject instead of approving.")] = False,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Approve or reject a pending action in your name."""
    from operator_sre.app.hub import Hub
    from operator_sre.app.persons import signed_in

    with open_home(context) as home:
        answering = Hub(home).approve_action(action, by=signed_in(), reason=reason, approved=not no)
        answered = run_until_stopped(answering)
    if as_json:
        print_json({"approval": answered})
    else:
        print_lines([clean(f"{action}: {answered.state} by {answered.decided_by}.")])


@app.command()
def listen(
    context: typer.Context,
    agent: AgentOption = "",
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
