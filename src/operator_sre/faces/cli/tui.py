"""`operator tui`: the console on a terminal."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

import typer

from operator_protocols.errors import MissingExtraError, UsageError
from operator_sre.faces.cli.options import JsonOption, config_of

if TYPE_CHECKING:
    from operator_sre.faces.tui.console.application import Console

__all__ = ["tui"]

STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def tui(context: typer.Context, as_json: JsonOption = False) -> None:
    """Open the terminal console: health, tickets, approvals, history and audit log.

    It shows what runs on this home. You can quit at any time: nothing depends on it.
    """
    if as_json:
        raise UsageError(
            "The console has no JSON output.",
            next_step="Use: operator health --json, operator tickets list --json",
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The console needs a terminal, and stdin or stdout is not one.",
            next_step="Use: operator health, operator tickets list",
        )
    if os.environ.get("TERM", "") in {"", "dumb"}:
        raise UsageError(
            "The console needs a terminal that can move its cursor.",
            next_step="Set TERM, or use: operator health",
        )
    if importlib.util.find_spec("textual") is None:
        raise MissingExtraError("tui", needed_for="The console")
    config = config_of(context)
    if sys.stderr.isatty():
        # Log lines would overwrite the screen, which shows the problems itself.
        logging.disable(logging.CRITICAL)
    from operator_sre.faces.tui.console.application import Console
    from operator_sre.faces.tui.lines import SteadyDriver

    raise typer.Exit(asyncio.run(_run(Console(config, SteadyDriver))))


async def _run(console: Console) -> int:
    """Run the console; a signal quits it as `q` does, so that the terminal is restored."""
    loop = asyncio.get_running_loop()
    stopped_by: list[int] = []

    def stop(number: int) -> None:
        stopped_by.append(number)
        console.exit()

    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    await console.run_async()
    return 128 + stopped_by[0] if stopped_by else console.return_code or 0
