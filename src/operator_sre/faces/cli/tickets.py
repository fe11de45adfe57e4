"""`operator tickets`: what is broken, and what became of it."""

from __future__ import annotations

from typing import Annotated

import typer

from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.telling import tell

__all__ = ["app"]

app = typer.Typer(help="What is broken, and what became of it.", no_args_is_help=True)
StateOption = Annotated[
    list[str] | None, typer.Option("--state", help="Only these states; may be repeated.")
]


@app.command("list")
def list_(
    context: typer.Context,
    state: StateOption = None,
    subject: Annotated[str, typer.Option(help="Only this subject.")] = "",
    as_json: JsonOption = False,
) -> None:
    """All tickets, most urgent and oldest first."""
    from operator_sre.app.tickets import list_tickets

    with opened(context) as app:
        found = list_tickets(app, states=state or [], subject=subject)
    if as_json:
        print_json({"tickets": found})
    elif not found:
        print_lines(["No tickets."])
    else:
        rows = [
            (one.id, one.state, one.severity, f"{one.opened_at:%m-%d %H:%M:%S}", one.summary)
            for one in found
        ]
        print_table(("id", "state", "severity", "opened", "summary"), rows)


@app.command()
def show(
    context: typer.Context,
    number: Annotated[int, typer.Argument(min=1, max=NUMBER_MAX, help="A ticket's number.")],
    as_json: JsonOption = False,
) -> None:
    """One ticket: what broke, how it was understood, what was done, what proves it."""
    from operator_sre.app.tickets import show_ticket

    with opened(context) as app:
        view = show_ticket(app, number)
    if as_json:
        print_json({"ticket": view.ticket, "entries": view.entries})
        return
    ticket = view.ticket
    print_lines(
        [
            f"Ticket {ticket.id}: {clean(ticket.summary)}",
            f"{ticket.state}, {ticket.severity}, {clean(ticket.subject)}, run {ticket.run or '-'}",
            clean(ticket.reason),
            "",
        ]
    )
    tell(view.entries)
