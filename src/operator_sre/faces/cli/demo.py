"""`operator demo`: the whole journey, played for real."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.demo_faces import Face, JsonFace, StoryFace
from operator_sre.faces.cli.options import JsonOption, ModelOption, config_of
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.config import Config

__all__ = ["demo"]


def demo(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="Which system to break.")] = "ratelimiter",
    fault: Annotated[str, typer.Option(help="How to break it.")] = "node_kill",
    seed: Annotated[int | None, typer.Option(help="Choose the victim repeatably.")] = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a real cluster, break it, and watch it being repaired.

    With --json every event is one JSON document on a line of its own. The record is kept in a
    directory that is named at the end (or in --home); your own state is not touched.
    """
    if context.obj.mode not in {None, "execute"}:
        raise UsageError(
            f"The demo repairs its own rig: its mode is 'execute', not {context.obj.mode!r}.",
            next_step="Leave --mode away; to choose one, use: operator lab up, operator up",
        )
    home = context.obj.home or tempfile.mkdtemp(prefix="operator-demo-")
    ended = False
    try:
        # A demo costs nothing and needs no network, unless it is told otherwise.
        mind = model or "reasoner"
        proven = _play(context, home, subject, fault, seed, model=mind, as_json=as_json)
        ended = True
    finally:
        # Only at its end it names the directory; before that nobody could find it.
        if not ended and not context.obj.home:
            shutil.rmtree(home, ignore_errors=True)
    raise typer.Exit(0 if proven else 1)


def _play(
    context: typer.Context,
    home: str,
    subject: str,
    fault: str,
    seed: int | None,
    *,
    model: str,
    as_json: bool,
) -> bool:
    flags = {"home": home, "store": "", "ledger_key": "", "mode": "execute", "profile": "lab"}
    pace = {"interval_s": "2", "stable_s": "5", "timeout_s": "2"}
    level = context.obj.log_level or "error"
    config = config_of(context, **flags, **pace, model=model, log_level=level)
    face = JsonFace(home=home) if as_json else StoryFace(home=home)
    # What is in the user's care has no part in this, even if it has the same name.
    alone = replace(config, subjects=())
    return run_until_stopped(_show(alone, face, subject, fault, seed))


async def _show(config: Config, face: Face, subject: str, fault: str, seed: int | None) -> bool:
    from operator_sre.app.demo import Ending, play
    from operator_sre.app.wiring import open_app

    proven = False
    with open_app(config) as app, face:
        async with aclosing(play(app, subject=subject, fault=fault, seed=seed)) as events:
            async for event in events:
                if isinstance(event, Ending):
                    proven = event.proven
                    face.end(event)
                else:
                    face.show(event)
    return proven
