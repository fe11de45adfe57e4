"""A play and the app that shows it, run together and recorded; whatever ends one ends both."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import IO

from textual.driver import Driver

from operator_lab.demo import Ending, Event, Plan, Told, play, sentence_of
from operator_lab.demo.story import report_text
from operator_lab.tui.app import Cues, DemoApp, Script
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.approvals import approve, reject
from operator_sre.app.wiring import App
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.tui.lines import SteadyDriver

__all__ = ["Recorder", "show"]

RECORD_BYTES_MAX = 64 << 20
WIDTH, HEIGHT = 120, 40


class Recorder:
    """Writes what a terminal is sent, with its times, and beside it the story as text."""

    def __init__(
        self,
        path: Path,
        *,
        title: str,
        size: tuple[int, int] = (WIDTH, HEIGHT),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.transcript_path = path.with_suffix(".txt")
        self._now = now
        self._began = now()
        self._size = size
        self._left = RECORD_BYTES_MAX
        self._cast = _create(path)
        try:
            self._transcript = _create(self.transcript_path)
        except UsageError:
            self._cast.close()
            path.unlink()
            raise
        width, height = size
        head = {"version": 2, "width": width, "height": height, "timestamp": int(time.time())}
        self._write({**head, "title": title, "env": {"TERM": os.environ.get("TERM", "")}})

    def output(self, text: str) -> None:
        """What the terminal was sent just now."""
        if text:
            self._write([round(self._now() - self._began, 6), "o", text])

    def resize(self, width: int, height: int) -> None:
        """The terminal has another size now."""
        if (width, height) != self._size:
            self._size = (width, height)
            self._write([round(self._now() - self._began, 6), "r", f"{width}x{height}"])

    def line(self, text: str) -> None:
        """One line of the story."""
        self._transcript.write(f"{text}\n")
        self._transcript.flush()

    def close(self) -> None:
        """Nothing more comes."""
        self._cast.close()
        self._transcript.close()

    def _write(self, document: object) -> None:
        text = json.dumps(document, ensure_ascii=False) + "\n"
        self._left -= len(text)
        if self._left >= 0:
            self._cast.write(text)
            self._cast.flush()


def _create(path: Path) -> IO[str]:
    try:
        # No existing file is overwritten, and the recording is for its owner only.
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as problem:
        raise UsageError(
            f"The recording cannot be written to {str(path)!r}: {problem.strerror}.",
            next_step="Name a file that is not there yet, in a folder that is.",
        ) from problem
    return os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace")


EXIT_S_MAX = 5.0


async def show(
    app: App, plan: Plan, *, auto: bool, recorder: Recorder | None = None
) -> Ending | None:
    """Play it on this terminal; the ending, or None when its viewer left before."""
    cues = Cues()
    queue: asyncio.Queue[Told | None] = asyncio.Queue()

    def note(event: Event) -> None:
        if recorder is not None:
            recorder.line(f"{event.line.step:8}{clean(event.line.text)}")
            for detail in event.line.details:
                recorder.line(f"{'':8}· {clean(detail)}")

    def leave(pump: asyncio.Task[None]) -> None:
        """A play that broke off has nothing to show; its error is printed on the terminal."""
        if not pump.cancelled() and pump.exception() is not None:
            shown.exit(None)

    script = Script(
        subject=plan.subject,
        fault=plan.fault,
        sentence=sentence_of(plan),
        feed=_drain(queue),
        cues=cues,
        answer=lambda approval, yes: _answer(app, approval, yes=yes),
        report=lambda ending: report_text(app, ending),
        # The same way as everywhere: the code that waits for the signal cleans up.
        stop=lambda: signal.raise_signal(signal.SIGINT),
        note=note,
        resize=(lambda width, height: None) if recorder is None else recorder.resize,
        auto=auto,
    )
    driver = SteadyDriver if recorder is None else _make_driver(recorder)
    shown = DemoApp(script, driver_class=driver)
    pump = asyncio.create_task(_pump(play(app, plan, cue=cues.cue), queue))
    pump.add_done_callback(leave)
    # Lines of a log would be written across the panels.
    logging.disable(logging.CRITICAL)
    running = asyncio.create_task(shown.run_async())
    try:
        ending = await asyncio.shield(running)
    finally:
        if not running.done():  # we are stopped: the terminal is given back first
            shown.exit()
            await asyncio.wait([running], timeout=EXIT_S_MAX)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        logging.disable(logging.NOTSET)
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
    if not pump.cancelled() and (problem := pump.exception()) is not None:
        raise problem
    return ending


async def _pump(feed: AsyncGenerator[Told, None], queue: asyncio.Queue[Told | None]) -> None:
    async with aclosing(feed):
        async for event in feed:
            queue.put_nowait(event)
    queue.put_nowait(None)


async def _drain(queue: asyncio.Queue[Told | None]) -> AsyncIterator[Told]:
    while (event := await queue.get()) is not None:
        yield event


async def _answer(app: App, approval: str, *, yes: bool) -> str:
    """The viewer's answer, in the name of the current user; the error, or nothing."""
    try:
        if yes:
            await approve(app, approval, reason="decided in the demo")
        else:
            await reject(app, approval, reason="decided in the demo")
    except OperatorError as problem:
        return str(problem)
    return ""


def _make_driver(recorder: Recorder) -> type[Driver]:
    class RecordingDriver(SteadyDriver):
        """Writes to the terminal, and into the recording."""

        def write(self, data: str) -> None:
            recorder.output(data)
            super().write(data)

    return RecordingDriver
