"""`operator tickets`: what is broken, what became of it, and what people do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.confirming import ProposeOption, YesOption, crossed
from operator_sre.faces.cli.options import NUMBER_MAX, JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list
from operator_sre.faces.cli.telling import tell

if TYPE_CHECKING:
    from operator_protocols.domain.ticket import Ticket

__all__ = ["app"]

app = typer.Typer(help="What is broken, and what became of it.", no_args_is_help=True)
StateOption = Annotated[
    list[str] | None, typer.Option("--state", help="Only these states; may be repeated.")
]
NumberArgument = Annotated[int, typer.Argument(min=1, max=NUMBER_MAX, help="A ticket's number.")]
ForOption = Annotated[str, typer.Option("--for", help="How long: 90s, 30m, 2h, 1d.")]
UntilOption = Annotated[str, typer.Option(help="Until when: 2030-01-31T06:00 (UTC).")]


@app.command("list")
def list_(
    context: typer.Context,
    state: StateOption = None,
    subject: Annotated[str, typer.Option(help="Only this subject.")] = "",
    severity: Annotated[str, typer.Option(help="Only this severity.")] = "",
    assignee: Annotated[str, typer.Option(help="Only those of this person.")] = "",
    text: Annotated[str, typer.Option(help="Only with this in the summary or reason.")] = "",
    as_json: JsonOption = False,
) -> None:
    """All tickets, most urgent and oldest first."""
    from operator_sre.app.tickets import list_tickets

    with opened(context) as app:
        found = list_tickets(
            app,
            states=state or [],
            subject=subject,
            severity=severity,
            assignee=assignee,
            text=text,
        )
        states = [_stands(one, paused=one.paused(app.clock.now())) for one in found]
    rows = [
        (
            one.id,
            stands,
            one.severity,
            one.assignee or "-",
            f"{one.opened_at:%m-%d %H:%M:%S}",
            one.summary,
        )
        for one, stands in zip(found, states, strict=True)
    ]
    head = ("id", "state", "severity", "assignee", "opened", "summary")
    print_list("tickets", found, head, rows, none="No tickets.", as_json=as_json)


@app.command()
def show(context: typer.Context, number: NumberArgument, as_json: JsonOption = False) -> None:
    """One ticket: what broke, how it was understood, what was done, what proves it."""
    from operator_sre.app.tickets import show_ticket

    with opened(context) as app:
        view = show_ticket(app, number)
        paused = view.ticket.paused(app.clock.now())
    if as_json:
        print_json({"ticket": view.ticket, "entries": view.entries})
        return
    ticket = view.ticket
    stands = f"{_stands(ticket, paused=paused)}, {ticket.severity}, {ticket.subject}"
    print_lines(
        [
            f"Ticket {ticket.id}: {clean(ticket.summary)}",
            clean(f"{stands}, run {ticket.run or '-'}"),
            *([clean(f"assigned to {ticket.assignee}")] if ticket.assignee else []),
            clean(ticket.reason),
            "",
        ]
    )
    tell(view.entries)


@app.command()
def hold(
    context: typer.Context,
    number: NumberArgument,
    reason: ReasonOption = "",
    for_: ForOption = "",
    until: UntilOption = "",
    as_json: JsonOption = False,
) -> None:
    """Keep agents off it until it is let go, or until a time; whoever works on it stops."""
    _move(context, number, "hold", reason=reason, for_=for_, until=until, as_json=as_json)


@app.command()
def unhold(
    context: typer.Context,
    number: NumberArgument,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let agents work on it again, whether it was held or snoozed."""
    _move(context, number, "unhold", reason=reason, as_json=as_json)


@app.command()
def snooze(
    context: typer.Context,
    number: NumberArgument,
    reason: ReasonOption = "",
    for_: ForOption = "",
    until: UntilOption = "",
    as_json: JsonOption = False,
) -> None:
    """Put it off: it comes back by itself at that time."""
    _move(context, number, "snooze", reason=reason, for_=for_, until=until, as_json=as_json)


@app.command()
def assign(
    context: typer.Context,
    number: NumberArgument,
    assignee: Annotated[str, typer.Argument(help="Who looks after it; '' for nobody.")],
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Say whose it is; agents work on it all the same, unless it is held."""
    _move(context, number, "assign", reason=reason, assignee=assignee, as_json=as_json)


@app.command()
def comment(
    context: typer.Context,
    number: NumberArgument,
    text: Annotated[str, typer.Argument(help="What there is to say.")],
    as_json: JsonOption = False,
) -> None:
    """Add a sentence to its story."""
    _move(context, number, "comment", reason=text, as_json=as_json)


@app.command()
def escalate(
    context: typer.Context,
    number: NumberArgument,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Give it to people; no agent takes it up any more."""
    _move(context, number, "escalate", reason=reason, as_json=as_json)


@app.command()
def handoff(
    context: typer.Context,
    number: NumberArgument,
    to: Annotated[str, typer.Option("--to", help="The agent or team that takes it over.")],
    why: Annotated[str, typer.Option("--why", help="What they need to know.")],
    yes: YesOption = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give it to another agent or team; ours work on it no more. It has to be confirmed."""
    from operator_sre.app.handoffs import handoff_asked
    from operator_sre.app.tickets import show_ticket

    with opened(context) as app:
        asked = handoff_asked(app, number, to=to, why=why)
        crossed(app, asked, yes=yes, propose=propose, as_json=as_json)
        done = show_ticket(app, number).ticket
    _print_done(done, as_json=as_json, paused=False)


@app.command()
def reopen(
    context: typer.Context,
    number: NumberArgument,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Have it worked on again, with all attempts left."""
    _move(context, number, "reopen", reason=reason, as_json=as_json)


@app.command()
def close(
    context: typer.Context,
    number: NumberArgument,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """End it without a proof, with a reason; what is still broken opens a new one."""
    _move(context, number, "close", reason=reason, as_json=as_json)


@app.command()
def resolve(
    context: typer.Context,
    number: NumberArgument,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """End it with a proof: we look ourselves, and it is refused while it does not hold."""
    from operator_sre.app.ticket_moves import resolve_ticket
    from operator_sre.faces.cli.progress import waiting
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app, waiting("looking for a proof"):
        done = run_until_stopped(resolve_ticket(app, number, reason=reason))
    _print_done(done, as_json=as_json, paused=False)


def _move(
    context: typer.Context,
    number: int,
    kind: str,
    *,
    reason: str,
    as_json: bool,
    for_: str = "",
    until: str = "",
    assignee: str = "",
) -> None:
    from operator_protocols.domain.ticket import MoveKind
    from operator_sre.app.ticket_moves import move_ticket
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app:
        work = move_ticket(
            app,
            number,
            MoveKind(kind),
            reason=reason,
            for_=for_,
            until=until,
            assignee=assignee,
        )
        done = run_until_stopped(work)
        paused = done.paused(app.clock.now())
    _print_done(done, as_json=as_json, paused=paused)


def _print_done(ticket: Ticket, *, as_json: bool, paused: bool) -> None:
    if as_json:
        print_json({"ticket": ticket})
        return
    print_lines([clean(f"Ticket {ticket.id} is {_stands(ticket, paused=paused)}.")])
    if ticket.state == "closed":
        quiet = f"operator silences add --subject {ticket.subject} --target {ticket.target}"
        print_lines([clean(f"What is still broken opens a new one, unless it is silent: {quiet}")])


def _stands(ticket: Ticket, *, paused: bool) -> str:
    """Its state, and what keeps agents off it."""
    if ticket.pause is None or not paused:
        return ticket.state
    how = "snoozed" if ticket.pause.snoozed else "held"
    until = f" until {ticket.pause.until:%m-%d %H:%M}" if ticket.pause.until else ""
    return f"{ticket.state}, {how}{until} by {ticket.pause.by}"
