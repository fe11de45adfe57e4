"""The demo's story: coloured on a terminal, plain lines in a pipe, JSON lines for programs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from operator_sre.faces.cli.output import clean, print_json
from operator_sre.faces.cli.painting import STYLES, Painter

if TYPE_CHECKING:
    from rich.status import Status

    from operator_sre.app.demo import Ending, Event
    from operator_sre.faces.tui.demo.recording import Recorder

__all__ = ["Face", "JsonFace", "RecordedFace", "StoryFace"]

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
        """It is over."""
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
        # Only a mind writes several lines; indented, so that none of them looks like ours.
        first, *more = line.text.split("\n") if line.step == "think" else [line.text]
        self._painter.line(f"{elapsed:5.1f} s  ", f"{line.step:7}", clean(first), STYLES[line.tone])
        for text in more:
            self._painter.line(" " * 9, " " * 7, clean(text), STYLES[line.tone])
        for detail in line.details:
            self._painter.line(" " * 9, " " * 7, f"· {clean(detail)}", "dim")
        if event.kind == "approval_requested":
            self._ask(event)
        if self._status is not None and line.step in STEPS:
            place = STEPS.index(line.step) + 1
            self._status.update(f"[{place}/{len(STEPS)}] {line.step}")

    def _ask(self, event: Event) -> None:
        """What to type in another terminal; until then nothing is changed."""
        approval = clean(str(event.payload["approval"]["id"]))
        how = f"{_this_command()} approvals approve {approval} --home {shlex.quote(self._home)}"
        self._painter.line(" " * 9, " " * 7, "in a second terminal, look at it and say yes:", "")
        self._painter.line("", "", f"    {how.replace(' approve ', ' show ', 1)}", "bold")
        self._painter.line("", "", f"    {how}", "bold")

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
        for text in self._figures(ending):
            self._painter.line("", "", text, "")

    def _figures(self, ending: Ending) -> list[str]:
        home = f"--home {shlex.quote(self._home)}"
        chain = "whole" if ending.chain_whole else "DAMAGED"
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
        return [
            *lines,
            "",
            "Look further:",
            f"  {me} tickets show {number} {home}",
            f"  {me} audit show {run} {home}",
            f"  {me} audit verify {home}",
        ]


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
