"""`operator alerts`: what other watchers say."""

from __future__ import annotations

from typing import Annotated

import typer

from operator_sre.faces.cli.listeners import say_listening
from operator_sre.faces.cli.options import JsonOption, config_of, open_home
from operator_sre.faces.cli.output import print_list
from operator_sre.faces.cli.signals import run_until_stopped

__all__ = ["app"]

app = typer.Typer(help="Receive alerts from other monitoring systems.", no_args_is_help=True)


@app.command()
def serve(
    context: typer.Context,
    listen: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1:9094",
    as_json: JsonOption = False,
) -> None:
    """Receive alerts over HTTP until stopped, and open tickets for them."""
    from operator_sre.app.alerts import Receiver
    from operator_sre.faces.receiver.application import serve as serve_alerts

    def ready(address: str) -> None:
        urls = [f"http://{address}{path}" for path in receiver.paths]
        say_listening(urls, as_json=as_json)

    with open_home(context) as home:
        receiver = Receiver(home)
        run_until_stopped(serve_alerts(receiver, listen, ready=ready))


@app.command("list")
def list_(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Include resolved alerts.")] = False,
    subject: Annotated[str, typer.Option(help="Only alerts of this subject.")] = "",
    as_json: JsonOption = False,
) -> None:
    """List firing alerts, newest first."""
    from operator_sre.app.alerts import list_alerts
    from operator_sre.app.wiring import look_at_app

    with look_at_app(config_of(context)) as home:
        found = list_alerts(home, firing=not every, subject=subject)
    rows = [
        (
            "firing" if alert.firing else "over",
            alert.severity,
            f"{alert.since:%m-%d %H:%M:%S}",
            alert.trigger,
            alert.target,
            alert.name,
            alert.summary,
        )
        for alert in found
    ]
    head = ("state", "severity", "since", "trigger", "target", "name", "summary")
    print_list("alerts", found, head, rows, none="No alerts.", as_json=as_json)
