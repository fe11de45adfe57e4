"""The whole journey on a rig of its own: nothing in it is scripted but the fault."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Health, worst
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import OperatorError
from operator_sre.app.audit import verify_ledger
from operator_sre.app.lab import break_rig, fault_of, own_rig, rig_status
from operator_sre.app.story import Line, lines_of
from operator_sre.app.wiring import App
from operator_sre.lab.load import LoadStats

__all__ = ["Ending", "Event", "play"]

POLL_S = 0.05
HEALTHY_S_MAX = 20.0
LOOKS_BEFORE = 2
STORY_S_MAX = 180.0


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, for a face to show."""

    line: Line
    seq: int | None = None
    kind: str = ""
    payload: Any = None
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the demo ended, in figures."""

    ticket: Ticket | None
    target: str
    detect_s: float | None
    repair_s: float | None
    proof_s: float | None
    entries: int
    chain_whole: bool
    load: LoadStats | None = field(default=None)

    @property
    def proven(self) -> bool:
        """True only if the ticket was resolved; RESOLVED needs a proof."""
        return self.ticket is not None and self.ticket.state is TicketState.RESOLVED


async def play(
    app: App, *, subject: str, fault: str, seed: int | None
) -> AsyncGenerator[Event | Ending, None]:
    """Rig, fault, and everything that follows from it. Leaves no process behind, whatever ends it.

    The last thing it yields is the Ending.
    """
    fault_of(subject, fault)  # a fault that there is not, is an error now and not after the start
    yield _say("rig", f"starting a real {subject} on private ports ...")
    rig = await own_rig(app, subject)
    loops: asyncio.Task[None] | None = None
    try:
        for target in rig_status(app, subject).targets:
            yield _say(
                "rig", f"{target.name:8} {target.kind:6} pid {target.pid} port {target.port}"
            )
        engine = app.engine()
        await _until_healthy(app, subject)
        loops = asyncio.create_task(_serve(engine.watch([subject]), engine.work()))
        yield _say("watch", await _flowing(app, subject, looks=LOOKS_BEFORE), "good")
        before = _last_seq(app)
        target_hit = await break_rig(app, subject, fault, target=None, seed=seed)
        times = {"fault": time.monotonic()}
        yield _say("fault", f"{fault}: {target_hit} was hit just now, and nobody was told", "bad")
        ticket: int | None = None
        async for event in _follow(app, loops, after=before):
            times[event.kind] = times.get(event.kind, 0.0) or time.monotonic()
            if event.kind == Kind.TOOL_RESULT:
                times[event.kind] = time.monotonic()  # the last thing done is the repair
            ticket = event.ticket or ticket
            yield event
        yield _ending(app, subject, target_hit, times, ticket=ticket)
    finally:
        if loops is not None:
            loops.cancel()
            await asyncio.gather(loops, return_exceptions=True)
        await rig.down()
        await app.programs.dismiss()


async def _serve(*loops: Any) -> None:
    await asyncio.gather(*loops)


async def _until_healthy(app: App, subject: str) -> None:
    """A demo on a rig that was never well would show nothing."""
    pipeline = app.engine().pipeline
    care = pipeline.care(subject)
    deadline = time.monotonic() + HEALTHY_S_MAX
    while time.monotonic() < deadline:
        sighting = await pipeline.monitor.look(care.subject)
        if worst(finding.health for finding in sighting.findings) is Health.HEALTHY:
            return
        await asyncio.sleep(0.2)
    raise OperatorError(
        f"The rig of {subject!r} did not become healthy within {HEALTHY_S_MAX:g} s.",
        next_step="Look at it with: operator lab up, operator lab status",
    )


async def _flowing(app: App, subject: str, *, looks: int) -> str:
    """Wait until the monitor has looked on for a while, so that it meets the fault unprepared."""
    deadline = time.monotonic() + HEALTHY_S_MAX
    seen = len(app.store.observations.newest(subject, limit=100)) + looks
    while time.monotonic() < deadline:
        if len(app.store.observations.newest(subject, limit=100)) >= seen:
            break
        await asyncio.sleep(POLL_S)
    load = rig_status(app, subject).load
    traffic = f"{load.ops_per_s:.0f} requests/s flow" if load else "no traffic"
    return f"the monitor has looked {looks} times: every invariant holds, {traffic}"


def _last_seq(app: App) -> int:
    newest = app.store.entries.newest(limit=1)
    return newest[0].seq if newest else 0


async def _follow(app: App, loops: asyncio.Task[None], *, after: int) -> AsyncIterator[Event]:
    """Every entry of the ledger behind `after` as it comes, until a ticket has ended."""
    seq, deadline = after, time.monotonic() + STORY_S_MAX
    while time.monotonic() < deadline:
        if loops.done():
            loops.result()
        for entry in app.store.entries.after(seq, limit=100):
            seq = entry.seq
            for line in lines_of(entry):
                yield Event(line, entry.seq, entry.kind.value, entry.payload, entry.ticket)
            if entry.kind in {Kind.TICKET_RESOLVED, Kind.TICKET_ESCALATED}:
                return
        await asyncio.sleep(POLL_S)
    yield _say("close", f"nothing came to an end within {STORY_S_MAX:g} s", "bad")


def _ending(
    app: App, subject: str, target: str, times: Mapping[str, float], *, ticket: int | None
) -> Ending:
    report = verify_ledger(app, progress=lambda seq: None)
    fault, detected = times["fault"], times.get(Kind.TICKET_OPENED)
    repaired, proven = times.get(Kind.TOOL_RESULT), times.get(Kind.TICKET_RESOLVED)
    return Ending(
        ticket=None if ticket is None else app.store.tickets.get(ticket),
        target=target,
        detect_s=detected - fault if detected else None,
        repair_s=repaired - detected if repaired and detected else None,
        proof_s=proven - detected if proven and detected else None,
        entries=report.entries,
        chain_whole=report.whole,
        load=rig_status(app, subject).load,
    )


def _say(step: str, text: str, tone: str = "plain") -> Event:
    return Event(Line(step, text, tone))
