"""`operator hub`: where agents of any kind ask for actions, and hear what became of theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.hub import Hub, Message

__all__ = ["app"]

app = typer.Typer(help="Where agents of any kind ask for actions.", no_args_is_help=True)
AgentOption = Annotated[str, typer.Option("--agent", help="The name of the agent.")]


@app.command()
def request(
    context: typer.Context,
    command: Annotated[str, typer.Argument(help="One command line, quoted.")],
    agent: AgentOption,
    kind: Annotated[str, typer.Option("--type", help="What kind of agent it is.")] = "agent",
    subject: Annotated[str, typer.Option(help="What it is about; this machine by default.")] = "",
    cwd: Annotated[str, typer.Option(help="Where it runs; here by default.")] = "",
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Ask for an action; any agent of this home that runs does it."""
    from dataclasses import replace

    from operator_protocols.domain.action import Action
    from operator_sre.app.hub import Agent, Hub

    action = replace(Action.shell(command, reasoning=reason), cwd=str(Path(cwd).absolute()))
    with opened(context) as home:
        asking = Hub(home).request_system_action(Agent(agent, kind), action, subject=subject)
        name = run_until_stopped(asking)
    if as_json:
        print_json({"action": name})
    else:
        print_lines([name])


@app.command()
def result(
    context: typer.Context, action: str, agent: AgentOption, as_json: JsonOption = False
) -> None:
    """What became of an action of this agent. Exit code 0 when it is completed, else 1."""
    from operator_sre.app.hub import Hub

    with opened(context) as home:
        found = Hub(home).get_action_result(action, agent)
    if as_json:
        print_json({"result": found})
    else:
        print_lines([clean(f"{action} is {found.state}. {found.reason}".rstrip())])
        said = f"{found.result.stdout}{found.result.stderr}" if found.result else ""
        print_lines([clean(line) for line in said.splitlines()])
    raise typer.Exit(0 if found.state == "completed" else 1)


@app.command()
def pending(context: typer.Context, agent: AgentOption = "", as_json: JsonOption = False) -> None:
    """Actions that are not over, of this agent or of all, oldest first."""
    from operator_sre.app.hub import Hub

    with opened(context) as home:
        found = Hub(home).get_pending_actions(agent)
    rows = [
        (
            one.action,
            one.agent.name,
            one.state,
            "yes" if one.approval else "-",
            one.what.command,
        )
        for one in found
    ]
    head = ("id", "agent", "state", "waits for people", "what")
    print_list("actions", found, head, rows, none="Nothing is pending.", as_json=as_json)


@app.command()
def approve(
    context: typer.Context,
    action: str,
    no: Annotated[bool, typer.Option("--reject", help="Do not let it run.")] = False,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Answer what an action waits for, in the name of whoever is signed in."""
    from operator_sre.app.hub import Hub
    from operator_sre.app.persons import signed_in

    with opened(context) as home:
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
        int, typer.Option(min=0, max=NUMBER_MAX, help="Only what came behind this entry.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Every message as a JSON document on a line.")
    ] = False,
) -> None:
    """Every message to this agent, or to all, until stopped."""
    from operator_sre.app.hub import Hub

    async def hear(hub: Hub) -> None:
        async for message in hub.subscribe(agent, after=after):
            if as_json:
                print_json({"message": message}, line=True)
            else:
                print_lines([_line(message)])

    with opened(context) as home:
        run_until_stopped(hear(Hub(home)))


def _line(message: Message) -> str:
    place = f"{message.seq:6}  {message.at:%H:%M:%S}  {message.agent}  {message.action}"
    return clean(f"{place}  {message.kind}  {message.text.strip()}".rstrip())
