"""One named way on a bed of its own: what was done about it, and whether that was right."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.ticket import TicketState
from operator_sre.app.wiring import App
from tests.subjects.bed.bed import ENDED, Bed, Seen, bed_in
from tests.subjects.bed.ways import Way

__all__ = ["Verdict", "try_way"]

END_S_MAX = 240.0
DETECT_S_MAX = 120.0
HOLD_S = 5.0
POLL_S = 0.3


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a way ended. `good` is repaired, or escalated with the right component and cause."""

    way: str
    ending: str
    good: bool
    named: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    harm: tuple[str, ...] = ()
    took_s: float = 0.0
    problem: str = ""

    @property
    def line(self) -> str:
        """One line of a table."""
        mark = "good" if self.good else "BAD "
        found = "; ".join(self.named) or "nothing"
        harm = f"  HARM {self.harm}" if self.harm else ""
        tail = f"{found}  {list(self.ran)}{harm} {self.problem}"
        return f"{mark} {self.way:30} {self.ending:12} {self.took_s:5.1f} s  {tail}"


async def try_way(way: Way, kept_in: Path | None = None) -> Verdict:
    """Bring a bed up, break it, and watch until every ticket has ended.

    The home of the operator is kept below `kept_in`, to read why a way ended badly.
    """
    with tempfile.TemporaryDirectory(prefix="bed-") as place, contextlib.ExitStack() as kept:
        try:
            async with bed_in(Path(place), has_box=way.has_box) as (bed, app):
                before = bed.processes()
                began = time.monotonic()
                await way.inject(bed, kept)
                seen = await _follow(bed, app)
                took_s = time.monotonic() - began
                healthy = not [
                    each
                    for each in app.store.conditions.of("bed")
                    if each.health.value != "healthy"
                ]
                if kept_in is not None:
                    copy = kept_in / way.name
                    shutil.rmtree(copy, ignore_errors=True)
                    shutil.copytree(bed.config.home, copy, ignore=shutil.ignore_patterns("runner"))
                    shutil.copy(bed.folder / "operator.log", copy)
                return _judge(way, seen, before, bed.processes(), took_s, healthy=healthy)
        except Exception as problem:  # noqa: BLE001  the table says what became of each way
            trace = traceback.extract_tb(problem.__traceback__)[-1]
            why = f"{type(problem).__name__}: {problem} ({trace.name}:{trace.lineno})"
            return Verdict(way.name, "void", good=False, problem=why[:600])


async def _follow(bed: Bed, app: App) -> Seen:
    began = time.monotonic()
    over: float | None = None
    while True:
        await asyncio.sleep(POLL_S)
        seen, now = bed.see(app), time.monotonic()
        if seen.states and all(state in ENDED for state in seen.states):
            over = now if over is None else over
            if now - over >= HOLD_S:
                return seen
        else:
            over = None
        if now - began >= (END_S_MAX if seen.states else DETECT_S_MAX):
            return seen


def _judge(
    way: Way,
    seen: Seen,
    before: Mapping[str, int],
    after: Mapping[str, int],
    took_s: float,
    *,
    healthy: bool,
) -> Verdict:
    mine = {way.component, *way.touches}
    named = tuple(dict.fromkeys(f"{each.cause}@{each.target}" for each in seen.claims))
    right = any(each.target == way.component and each.cause in way.causes for each in seen.claims)
    is_over = bool(seen.states) and all(state in ENDED for state in seen.states)
    if is_over and TicketState.ESCALATED not in seen.states and healthy:
        ending = "repaired"
    elif not seen.states:
        ending = "missed"
    else:
        ending = "escalated" if is_over else "unfinished"
    harm = [
        f"{name} was well and is another process"
        for name, pid in before.items()
        if name not in mine and after.get(name) != pid
    ]
    harm += [f"{command} at {target}" for command, target in seen.commands if target not in mine]
    good = not harm and (ending == "repaired" if way.repaired else right and ending == "escalated")
    good = good or (not harm and not way.repaired and ending == "repaired")
    return Verdict(
        way.name,
        ending,
        good=good,
        named=named,
        ran=tuple(command for command, _ in seen.commands),
        harm=tuple(harm),
        took_s=took_s,
    )
