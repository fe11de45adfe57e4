"""`operator demo`: the whole journey, played for real, as a story, as lines or as JSON."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import JsonOption, ModelOption, config_of
from operator_sre.faces.cli.output import clean, is_quiet, print_json
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.faces.cli.story import STYLES, Painter

if TYPE_CHECKING:
    from rich.status import Status

    from operator_lab.demo import Ending, Event, Plan
    from operator_lab.tui.recorder import Recorder
    from operator_sre.config import Config

__all__ = [
    "Face",
    "JsonFace",
    "RecordedFace",
    "StoryFace",
    "demo",
    "this_program",
]

COLOURS = {
    "good": "\x1b[32m",
    "bad": "\x1b[1;31m",
    "warn": "\x1b[33m",
    "strong": "\x1b[1m",
}
PLAIN = "\x1b[0m"
STEPS = ("rig", "watch", "fault", "file", "think", "decide", "act", "prove", "close")


class Face(Protocol):
    """Shows events as they come, then the ending."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, event: Event) -> None:
        """One thing happened."""
        ...

    def end(self, ending: Ending) -> None:
        """The demo has ended."""
        ...


class JsonFace:
    """Every event as one JSON document on a line."""

    def __init__(self, *, home: str) -> None:
        self._home = home
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, event: Event) -> None:
        """One line."""
        body: dict[str, Any] = {
            "event": event.kind if event.seq is not None else event.line.step,
            "elapsed_s": round(time.monotonic() - self._started, 3),
            "step": event.line.step,
            "text": event.line.text,
            "details": event.line.details,
        }
        if event.seq is not None:
            body |= {"audit_seq": event.seq, "payload": event.payload}
        print_json(body, line=True)

    def end(self, ending: Ending) -> None:
        """The last line."""
        end = {"event": "end", "proven": ending.proven, "home": self._home, "ending": ending}
        print_json(end, line=True)


class StoryFace:
    """Lines for people, with a moving status below them on a terminal."""

    def __init__(self, *, home: str) -> None:
        self._home = home
        self._started = time.monotonic()
        self._painter = Painter()
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._painter.console is not None:
            self._status = self._painter.console.status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, event: Event) -> None:
        """One line, and its details indented below it."""
        line = event.line
        elapsed = time.monotonic() - self._started
        # Only a model writes several lines; indented, so that none of them looks like ours.
        first, *more = line.text.split("\n") if line.step == "think" else [line.text]
        self._painter.line(f"{elapsed:5.1f} s  ", f"{line.step:7}", clean(first), STYLES[line.tone])
        for text in more:
            self._painter.line(" " * 9, " " * 7, clean(text), STYLES[line.tone])
        for detail in line.details:
            self._painter.line(" " * 9, " " * 7, f"· {clean(detail)}", "dim")
        if event.kind == "approval_requested":
            approval = clean(str(event.payload["approval"]["id"]))
            how = f"{_this_command()} approvals approve {approval} --home {shlex.quote(self._home)}"
            self._painter.line(" " * 9, " " * 7, "in a second terminal, review and approve it:", "")
            self._painter.line("", "", f"    {how.replace(' approve ', ' show ', 1)}", "bold")
            self._painter.line("", "", f"    {how}", "bold")
        if self._status is not None and line.step in STEPS:
            place = STEPS.index(line.step) + 1
            self._status.update(f"[{place}/{len(STEPS)}] {line.step}")

    def end(self, ending: Ending) -> None:
        """The figures, and where to look further."""
        if self._status is not None:
            self._status.stop()
        if ending.proven:
            verdict, style = "The ticket was resolved with a proof.", STYLES["good"]
        else:
            verdict, style = "The ticket was NOT resolved.", STYLES["bad"]
        self._painter.line("", "", "", "")
        self._painter.line("", "", verdict, style)
        home = f"--home {shlex.quote(self._home)}"
        chain = "intact" if ending.chain_whole else "DAMAGED"
        lines = [
            f"  time to detect   {_seconds(ending.detect_s)}",
            f"  time to repair   {_seconds(ending.repair_s)}  (from detection, until it answered)",
            f"  time to proof    {_seconds(ending.proof_s)}  (from detection, until proven)",
            f"  ledger           {ending.entries} entries, chain {chain}",
        ]
        if ending.load is not None:
            share = ending.load.ok / max(1, ending.load.total)
            lines.append(f"  traffic          {ending.load.total} requests, {share:.1%} answered")
        me = _this_command()
        number = ending.ticket.id if ending.ticket else 1
        run = ending.ticket.run if ending.ticket else ""
        for text in [
            *lines,
            "",
            "Next:",
            f"  {me} tickets show {number} {home}",
            f"  {me} audit show {run} {home}",
            f"  {me} audit verify {home}",
        ]:
            self._painter.line("", "", text, "")


class RecordedFace:
    """Another face, whose story is written into a recording as well."""

    def __init__(self, face: Face, recorder: Recorder) -> None:
        self._face = face
        self._recorder = recorder
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        self._face.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._face.__exit__(kind, error, trace)

    def show(self, event: Event) -> None:
        """One line for both."""
        self._face.show(event)
        line, elapsed = event.line, time.monotonic() - self._started
        self._write(f"{elapsed:5.1f} s  ", line.step, line.text, line.tone)
        for detail in line.details:
            self._write(" " * 9, "", f"· {detail}", "plain")

    def end(self, ending: Ending) -> None:
        """The last line."""
        self._face.end(ending)
        word, tone = ("resolved with a proof", "good") if ending.proven else ("NOT resolved", "bad")
        self._write("", "", f"The ticket was {word}.", tone)

    def _write(self, place: str, step: str, text: str, tone: str) -> None:
        plain = f"{place}{step:7}{clean(text)}" if place else clean(text)
        self._recorder.line(plain.rstrip())
        colour = COLOURS.get(tone, "")
        self._recorder.output(f"{colour}{plain.rstrip()}{PLAIN if colour else ''}\r\n")


def _this_command() -> str:
    """How to call us again: by name when the shell would find us, by path otherwise."""
    me, found = Path(sys.argv[0]), shutil.which("operator")
    if not me.is_file() or (found is not None and me.samefile(found)):
        return "operator"
    return shlex.quote(os.path.relpath(me) if me.is_relative_to(Path.cwd()) else str(me))


def _seconds(value: float | None) -> str:
    return f"{value:5.1f} s" if value is not None else "    -"


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
    subject: Annotated[str, typer.Argument(help="The system to break.")] = "ratelimiter",
    fault: Annotated[
        str | None,
        typer.Option("--fault", "--chaos", help="The fault to inject; see: operator lab faults."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed for choosing the target, to repeat a run.")
    ] = None,
    model: ModelOption = None,
    auto: Annotated[bool, typer.Option("--auto", help="Advance the pages automatically.")] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print plain lines instead of panels.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(help="Record an asciicast to this file, with a transcript next to it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a real cluster, break it, and watch Operator repair it.

    A terminal shows panels: press SPACE for the next page, ? for help, q to quit. In a pipe, or
    with --plain, the demo prints plain lines; with --json it prints one JSON document per event.
    With --mode approve it asks for your approval before each repair. The demo keeps its records in
    a new directory, which it names at the end, or in --home. It does not touch your own state.
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
        # A demo costs nothing and needs no network, unless options say otherwise.
        mode = context.obj.mode or "execute"
        flags = {"home": home, "store": "", "ledger_key": "", "mode": mode, "profile": "lab"}
        pace = {"interval_s": "2", "stable_s": "5", "timeout_s": "2"}
        level = context.obj.log_level or "error"
        own = config_of(context, **flags, **pace, model=model or "reasoner", log_level=level)
        # What is in the user's care has no part in this, even if it has the same name.
        config = replace(own, subjects=(), triggers=())
        from operator_lab.demo import Plan, choose_fault

        ending = _play(
            config,
            Plan(
                subject=subject,
                fault=choose_fault(subject, fault),
                command=this_program(),
                seed=seed,
                countdown_s=COUNTDOWN_S if wish.on_screen else 0,
            ),
            wish,
        )
        ended = ending is not None
    finally:
        # Only its end prints the directory, so an unfinished demo leaves none that no one knows.
        if not ended and not context.obj.home:
            shutil.rmtree(home, ignore_errors=True)
    raise typer.Exit(LEFT if ending is None else 0 if ending.proven else 1)


def this_program() -> tuple[str, ...]:
    """How monitor and agent are started: the command beside our Python, or Python itself."""
    beside = Path(sys.executable).with_name("operator")
    if beside.is_file():
        return (str(beside),)
    return (sys.executable, "-P", "-c", "from operator_sre.faces.cli.main import main; main()")


def _play(config: Config, plan: Plan, wish: _Wish) -> Ending | None:
    if wish.record is None:
        recorder = None
    else:
        from operator_lab.tui.recorder import Recorder

        size = shutil.get_terminal_size((120, 40))
        title = f"operator demo {plan.subject} --fault {plan.fault}"
        recorder = Recorder(wish.record, title=title, size=(size.columns, size.lines))
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


async def _on_screen(
    config: Config, plan: Plan, wish: _Wish, recorder: Recorder | None
) -> Ending | None:
    from operator_lab.tui.show import show
    from operator_sre.app.wiring import open_app

    with open_app(config) as app:
        return await show(app, plan, auto=wish.auto, recorder=recorder)


async def _in_lines(config: Config, plan: Plan, face: Face) -> Ending | None:
    from operator_lab.demo import Ending, Event, play
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
