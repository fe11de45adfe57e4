"""`operator notify`: tell people."""

from __future__ import annotations

import typer

from operator_sre.faces.cli.options import JsonLinesOption, JsonOption, config_of, open_home
from operator_sre.faces.cli.output import print_json, print_lines, print_list
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.faces.cli.story import with_entries

__all__ = ["app"]

app = typer.Typer(help="Send notifications.", no_args_is_help=True)


@app.command()
def run(context: typer.Context, as_json: JsonLinesOption = False) -> None:
    """Send notifications until stopped. `operator monitor run` and `operator up` include this."""
    from operator_sre.app.notices import run_notices

    with open_home(context) as home:
        run_until_stopped(with_entries(home, run_notices(home), as_json=as_json))


@app.command("test")
def send_test_message(context: typer.Context, as_json: JsonOption = False) -> None:
    """Send a test message to every address."""
    from operator_sre.app.notices import send_test

    with open_home(context) as home, waiting("sending"):
        results = run_until_stopped(send_test(home))
    if as_json:
        print_json({"channels": results})
    else:
        print_lines([f"{result.name}: {result.problem or 'sent'}" for result in results])
    if any(result.problem for result in results):
        raise typer.Exit(1)


@app.command()
def status(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show sent and failed messages for each address."""
    from operator_sre.app.notices import notify_status
    from operator_sre.app.wiring import look_at_app

    with look_at_app(config_of(context)) as home:
        found = notify_status(home)
    rows = [
        (
            channel.name,
            channel.sent,
            channel.failed,
            channel.lost,
            channel.behind,
            channel.holder or "nobody",
            channel.problem or ("ok" if channel.configured else "not configured"),
        )
        for channel in found
    ]
    head = ("channel", "sent", "failed", "lost", "behind", "sent by", "state")
    print_list("channels", found, head, rows, none="No notification channels.", as_json=as_json)
