"""A play and the app that shows it, run together; whatever ends one ends both."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from textual.driver import Driver

from operator_lab.demo import Ending, Event, Plan, Told, play, sentence_of
from operator_lab.demo.story import report_text
from operator_lab.tui.app import Cues, DemoApp, Script
from operator_lab.tui.recorder import Recorder
from operator_protocols.errors import OperatorError
from operator_sre.app.approvals import approve, reject
from operator_sre.app.wiring import App
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.tui.lines import SteadyDriver
from operator_sre.plugins import find_plugin

__all__ = ["show"]

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
        story=find_plugin(plan.subject).story,
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
