"""Looking at PostgreSQL: every server on one short connection of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import MissingExtraError, ObservationError
from operator_protocols.ports import Invariant, SubjectSettings
from operator_sre.subjects.postgres.comparing import compared
from operator_sre.subjects.postgres.invariants import invariants_of
from operator_sre.subjects.postgres.login import login_of
from operator_sre.subjects.postgres.places import runs, seen_here
from operator_sre.subjects.postgres.readings import Scans, rates, readings_of, scans_of
from operator_sre.subjects.postgres.sections import OF_OTHERS, VERSION_MIN, question, sections
from operator_sre.subjects.postgres.session import (
    Refusal,
    RefusedError,
    Session,
    driver,
    opened,
)
from operator_sre.subjects.postgres.symptoms import symptoms_of
from operator_sre.subjects.postgres.thresholds import thresholds_of

__all__ = ["CLIENT", "SERVER", "Postgres"]

SERVER = "server"
CLIENT = "client"
WHY_CHARACTERS_MAX = 160
COUNT_S = 1.5  # servers add up what their sessions did about once a second
COUNTED_S_MIN = 2.0
# What a server says that lives and cannot serve anybody for want of memory.
NO_MEMORY = ("out of memory", "cannot allocate memory", "could not fork")
NOT_A_MONITOR = "our role may not see what others do: GRANT pg_monitor to it"


class Postgres:
    """Servers of kind `server`, of which one is the primary, and clients of kind `client`."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._thresholds = thresholds_of(settings.options)
        self.name = settings.name
        self.invariants: Sequence[Invariant] = invariants_of(
            self._thresholds, ignored=tuple(settings.options.get("ignore", ()))
        )
        # When each server was counted last, and what was counted: a rate needs two looks.
        self._counted: dict[str, list[tuple[float, Scans]]] = {}

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self._settings.targets()

    async def observe(self) -> Observation:
        """Look once. ObservationError when there is nothing to look at."""
        targets = self.targets()
        if not targets:
            raise ObservationError(f"{self.name!r} has no targets to look at.")
        seen = await asyncio.gather(*(self._seen(target) for target in targets))
        return Observation(self.name, self._settings.clock.now(), tuple(compared(seen)))

    async def _seen(self, target: Target) -> Seen:
        if target.kind == CLIENT:
            return _client(target)
        if target.kind != SERVER:
            return Seen(target.name, problem=f"its kind {target.kind!r} is not known")
        here = await asyncio.to_thread(seen_here, target)
        readings: dict[str, Value] = {"kind": SERVER, **here}
        try:
            login = login_of(self._settings, target)
            timeout_s = self._settings.timeout_s
            async with opened(target, login, timeout_s=timeout_s) as session:
                return await self._asked(target, session, readings)
        except RefusedError as refused:
            return self._refused(target, refused, readings)
        except TimeoutError:
            late = RefusedError(Refusal.GONE, "it does not answer in time")
            return self._refused(target, late, readings)
        except (MissingExtraError, ObservationError) as problem:
            return Seen(target.name, readings, str(problem))
        except driver().Error as error:
            why = " ".join(str(error).split())[:WHY_CHARACTERS_MAX]
            return Seen(target.name, readings, f"it cannot be asked: {why}")

    def _refused(self, target: Target, refused: RefusedError, readings: dict[str, Value]) -> Seen:
        """A server that lets nobody in is there; one that nobody hears from is not."""
        if refused.kind is Refusal.DENIED:
            return Seen(target.name, readings, f"it does not let us in: {refused.sentence}")
        readings["error"] = refused.sentence
        if refused.kind is Refusal.FULL:
            readings |= {"reachable": True, "up": True, "exhausted": True}
        else:
            readings |= {"reachable": refused.kind is Refusal.NOT_NOW, "up": False}
            readings["memory_short"] = any(one in refused.sentence.lower() for one in NO_MEMORY)
        return Seen(target.name, {**readings, **symptoms_of(readings, self._thresholds)})

    async def _asked(self, target: Target, session: Session, readings: dict[str, Value]) -> Seen:
        version = session.connection.info.server_version
        if version < VERSION_MIN:
            why = f"it is older than PostgreSQL {VERSION_MIN // 10000}"
            return Seen(target.name, readings, why)
        begun = time.perf_counter()
        await session.ask("SELECT 1")
        latency_ms = (time.perf_counter() - begun) * 1000
        asked = sections(version, large_rows=int(self._thresholds.large_table_rows))
        said, blind = _admitted(*await _answers(session, asked))
        readings |= {
            "reachable": True,
            "up": True,
            "exhausted": False,
            "latency_ms": round(latency_ms, 1),
            **readings_of(said),
            **blind,
            **await self._scanned(target.name, said, asked, session),
        }
        connections, most = readings.get("connections"), readings.get("connections_max")
        if isinstance(connections, int) and isinstance(most, int):
            readings["connections_ratio"] = round(connections / most, 3)
            readings["exhausted"] = connections >= most
        return Seen(target.name, {**readings, **symptoms_of(readings, self._thresholds)})

    async def _scanned(
        self, name: str, said: Mapping[str, Any], asked: Mapping[str, str], session: Session
    ) -> dict[str, Value]:
        """How many rows of large tables are read one by one, per second since an earlier look.

        Whoever looks for the first time counts twice within this look. A server counts once in a
        second, so that of two looks within one the second would see nothing.
        """
        clock, scans = self._settings.clock, scans_of(said)
        counts = self._counted.setdefault(name, [])
        while len(counts) > 1 and clock.monotonic() - counts[1][0] >= COUNTED_S_MIN:
            del counts[0]
        before = counts[0] if counts else None
        if before is None and "tables" in said:
            before = (clock.monotonic(), scans)
            await clock.sleep(min(COUNT_S, self._settings.timeout_s / 3))
            try:
                scans = scans_of((await _answers(session, {"tables": asked["tables"]}))[0])
            except (TimeoutError, driver().Error):
                before = None  # it has said all the rest
        now = clock.monotonic()
        counts.append((now, scans))
        if before is None or now <= before[0]:
            return {"scans_counted": False}
        return {"scans_counted": True, **rates(before[1], scans, now - before[0])}


async def _answers(
    session: Session, asked: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Value]]:
    """All answers, and `blind_SECTION` with the reason for each that there is none to.

    All is asked in one statement first. Where that is not allowed or takes too long, each section
    is asked for itself, so that one forbidden view hides nothing but itself.
    """
    errors = driver().errors
    try:
        return await session.ask(question(asked)), {}
    except (errors.InsufficientPrivilege, errors.QueryCanceled, errors.UndefinedTable):
        pass
    said: dict[str, Any] = {}
    blind: dict[str, Value] = {}
    for name, text in asked.items():
        try:
            said[name] = await session.ask(text)
        except (errors.InsufficientPrivilege, errors.QueryCanceled, errors.UndefinedTable) as why:
            blind[f"blind_{name}"] = " ".join(str(why).split())[:WHY_CHARACTERS_MAX]
    return said, blind


def _admitted(
    said: dict[str, Any], blind: dict[str, Value]
) -> tuple[dict[str, Any], dict[str, Value]]:
    """Only what our role may really see: to others a server shows less, and does not say so."""
    state = said.get("state")
    if isinstance(state, Mapping) and state.get("sees_all") is not True:
        said = {name: part for name, part in said.items() if name not in OF_OTHERS}
        blind |= {f"blind_{name}": NOT_A_MONITOR for name in OF_OTHERS}
    return said, blind


def _client(target: Target) -> Seen:
    """A client is not asked anything: either its process runs, or nobody can tell."""
    readings: dict[str, Value] = {"kind": CLIENT}
    if target.process is None:
        return Seen(target.name, readings, "it has no process that could be looked at")
    return Seen(target.name, {**readings, "running": runs(target.process)})
