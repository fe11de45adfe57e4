"""`operator demo`: the whole journey, played for real."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.demo_faces import Face, JsonFace, RecordedFace, StoryFace
from operator_sre.faces.cli.options import JsonOption, ModelOption, config_of
from operator_sre.faces.cli.output import is_quiet
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.demo import Ending, Plan
    from operator_sre.config import Config
    from operator_sre.faces.tui.demo.recording import Recorder

__all__ = ["demo", "this_program"]

MODES = ("execute", "approve")
COUNTDOWN_S = 3
LEFT = 128 + signal.SIGINT


@dataclass(frozen=True, slots=True)
class _Wish:
    """How its viewer wants to see it."""

    as_json: bool
    plain: bool
    auto: bool
    record: Path | None

    @property
    def on_screen(self) -> bool:
        """Whether panels can be shown: keys come in, and both ways out are a terminal."""
        if self.as_json or self.plain or is_quiet() or os.environ.get("TERM") == "dumb":
            return False
        terminals = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
        return terminals and find_spec("textual") is not None


def demo(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="Which system to break.")] = "ratelimiter",
    fault: Annotated[
        str | None, typer.Option(help="How to break it; see: operator lab faults.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Choose the victim repeatably.")] = None,
    model: ModelOption = None,
    auto: Annotated[bool, typer.Option("--auto", help="Turn the pages by itself.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="The story as lines, no panels.")] = False,
    record: Annotated[
        Path | None, typer.Option(help="Write an asciicast there, and a transcript beside it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a real cluster, break it, and watch it being repaired.

    On a terminal there are panels, and you turn the pages: SPACE goes on, ? helps, q quits. In a
    pipe, or with --plain, it is a story in lines; with --json every event is a JSON document on a
    line of its own. With --mode approve it asks you before it repairs anything. The record is kept
    in a directory that is named at the end (or in --home); your own state is not touched.
    """
    if context.obj.mode not in {None, *MODES}:
        raise UsageError(
            f"The demo repairs its own rig: its mode is 'execute' or 'approve', not"
            f" {context.obj.mode!r}.",
            next_step="Leave --mode away; to choose another, use: operator lab up, operator up",
        )
    home = context.obj.home or tempfile.mkdtemp(prefix="operator-demo-")
    ended = False
    try:
        wish = _Wish(as_json, plain, auto, record)
        # A demo costs nothing and needs no network, unless it is told otherwise.
        config = _config(context, home, model or "reasoner")
        ending = _play(config, _plan(subject, fault, seed, wish), wish)
        ended = ending is not None
    finally:
        # Only at its end it names the directory; before that nobody could find it.
        if not ended and not context.obj.home:
            shutil.rmtree(home, ignore_errors=True)
    raise typer.Exit(LEFT if ending is None else 0 if ending.proven else 1)


def _config(context: typer.Context, home: str, model: str) -> Config:
    mode = context.obj.mode or "execute"
    flags = {"home": home, "store": "", "ledger_key": "", "mode": mode, "profile": "lab"}
    pace = {"interval_s": "2", "stable_s": "5", "timeout_s": "2"}
    level = context.obj.log_level or "error"
    config = config_of(context, **flags, **pace, model=model, log_level=level)
    # What is in the user's care has no part in this, even if it has the same name.
    return replace(config, subjects=(), triggers=())


def _plan(subject: str, fault: str | None, seed: int | None, wish: _Wish) -> Plan:
    from operator_sre.app.demo import Plan, choose_fault

    return Plan(
        subject=subject,
        fault=choose_fault(subject, fault),
        command=this_program(),
        seed=seed,
        countdown_s=COUNTDOWN_S if wish.on_screen else 0,
    )


def this_program() -> tuple[str, ...]:
    """How monitor and agent are started: the command beside our Python, or Python itself."""
    beside = Path(sys.executable).with_name("operator")
    if beside.is_file():
        return (str(beside),)
    return (sys.executable, "-P", "-c", "from operator_sre.faces.cli.main import main; main()")


def _play(config: Config, plan: Plan, wish: _Wish) -> Ending | None:
    recorder = _recorder(plan, wish)
    home = str(config.home)
    face: Face = JsonFace(home=home) if wish.as_json else StoryFace(home=home)
    try:
        if wish.on_screen:
            ending = run_until_stopped(_on_screen(config, plan, wish, recorder))
            if ending is not None:
                face.end(ending)
            return ending
        if recorder is not None:
            face = RecordedFace(face, recorder)
        return run_until_stopped(_in_lines(config, plan, face))
    finally:
        if recorder is not None:
            recorder.close()


def _recorder(plan: Plan, wish: _Wish) -> Recorder | None:
    if wish.record is None:
        return None
    from operator_sre.faces.tui.demo.recording import Recorder

    size = shutil.get_terminal_size((120, 40))
    title = f"operator demo {plan.subject} --fault {plan.fault}"
    return Recorder(wish.record, title=title, size=(size.columns, size.lines))


async def _on_screen(
    config: Config, plan: Plan, wish: _Wish, recorder: Recorder | None
) -> Ending | None:
    from operator_sre.app.wiring import open_app
    from operator_sre.faces.tui.demo.showing import show

    with open_app(config) as app:
        return await show(app, plan, auto=wish.auto, recorder=recorder)


async def _in_lines(config: Config, plan: Plan, face: Face) -> Ending | None:
    from operator_sre.app.demo import Ending, Event, play
    from operator_sre.app.wiring import open_app

    ending = None
    with open_app(config) as app, face:
        async with aclosing(play(app, plan)) as events:
            async for event in events:
                if isinstance(event, Ending):
                    ending = event
                    face.end(event)
                elif isinstance(event, Event):
                    face.show(event)
    return ending
