"""Observation of PostgreSQL: every server on one short connection of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import MissingExtraError, ObservationError
from operator_protocols.kit.client import ErrorRates
from operator_protocols.kit.machine import (
    data_dir_of,
    disk_room,
    is_paused,
    is_running,
    log_bytes,
)
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.postgres.canary import (
    explained_kinds,
    log_errors,
    table_of,
    write_canary,
)
from operator_sre.subjects.postgres.invariants import invariants_of, symptoms_of, thresholds_of
from operator_sre.subjects.postgres.readings import (
    Scans,
    compare,
    configured_of,
    rates,
    readings_of,
    scans_of,
)
from operator_sre.subjects.postgres.rights import missing_right
from operator_sre.subjects.postgres.sections import OF_OTHERS, VERSION_MIN, question, sections
from operator_sre.subjects.postgres.session import (
    ACTING,
    WATCHING,
    Refusal,
    RefusedError,
    Session,
    driver,
    login_of,
    open_session,
)
from operator_sre.subjects.postgres.start import compare_starts, start_readings

__all__ = ["CLIENT", "SERVER", "Postgres", "local_readings"]

SERVER = "server"
CLIENT = "client"
WHY_CHARACTERS_MAX = 160
COUNT_S = 1.5  # servers add up what their sessions did about once a second
COUNTED_S_MIN = 2.0
# What a server says that lives and cannot serve anybody for want of memory.
NO_MEMORY = ("out of memory", "cannot allocate memory", "could not fork")


class Postgres(BaseSubject):
    """Servers of kind `server`, of which one is the primary, and clients of kind `client`."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._thresholds = thresholds_of(settings.options)
        ignored = tuple(settings.options.get("ignore", ()))
        super().__init__(settings, invariants_of(self._thresholds, ignored=ignored))
        # When each server was counted last, and what was counted: a rate needs two checks.
        self._counted: dict[str, list[tuple[float, Scans]]] = {}
        self._canary = table_of(settings.options.get("canary"))
        users = (str(settings.options.get("user") or WATCHING), ACTING)
        self._log_errors, self._error_rates = log_errors(users), ErrorRates()

    async def observe(self) -> Observation:
        """Observe once. ObservationError when there is nothing to observe."""
        seen = await asyncio.gather(*map(self._observe_target, self.present_targets()))
        return self.observation(compare_starts(compare(seen)))

    async def _observe_target(self, target: Target) -> Seen:
        readings: dict[str, Value] = {"kind": target.kind}
        if target.kind == CLIENT:
            # A client is not asked anything: its process runs, or its state is unknown.
            if target.process is None:
                return Seen(target.name, readings, "its process is unknown")
            readings["paused"] = is_paused(target.process)
            return Seen(target.name, {**readings, "running": is_running(target.process)})
        if target.kind != SERVER:
            return see_stranger(target)
        readings |= await asyncio.to_thread(local_readings, target)
        readings |= await asyncio.to_thread(start_readings, target)
        try:
            login = login_of(self.settings, target)
            opening = open_session(target, login, timeout_s=self.settings.timeout_s)
            async with opening as session:
                version = session.connection.info.server_version
                if version < VERSION_MIN:
                    why = f"it is older than PostgreSQL {VERSION_MIN // 10000}"
                    return Seen(target.name, readings, why)
                readings |= await self._ask(target.name, session)
        except (RefusedError, TimeoutError) as error:
            late = RefusedError(Refusal.GONE, "it did not answer in time")
            refused = error if isinstance(error, RefusedError) else late
            # A server that refuses every login is up; a server that no other hears from is not.
            if refused.kind is Refusal.DENIED:
                return Seen(target.name, readings, f"login rejected: {refused.sentence}")
            readings["error"] = refused.sentence
            if refused.kind is Refusal.FULL:
                readings |= {"reachable": True, "up": True, "exhausted": True}
            else:
                short = any(sign in refused.sentence.lower() for sign in NO_MEMORY)
                readings |= {"reachable": refused.kind is Refusal.NOT_NOW, "up": False}
                readings["memory_short"] = short
        except (MissingExtraError, ObservationError) as problem:
            return Seen(target.name, readings, str(problem))
        except driver().Error as error:
            why = " ".join(str(error).split())[:WHY_CHARACTERS_MAX]
            return Seen(target.name, readings, f"it cannot be queried: {why}")
        readings |= symptoms_of(readings, self._thresholds)
        return Seen(target.name, {**readings, **await self._count_errors(target, readings)})

    async def _count_errors(self, target: Target, readings: dict[str, Value]) -> dict[str, Value]:
        """How many errors its clients get, by its log, or else by its statistics."""
        totals, example = await asyncio.to_thread(self._log_errors.count, target)
        if not totals:
            numbers = [readings.get(name) for name in ("deadlocks", "recovery_conflicts")]
            known = [number for number in numbers if isinstance(number, int)]
            totals = {"aborted": sum(known)} if known else {}
        now, explained = self.settings.clock.monotonic(), explained_kinds(readings)
        return (
            self._error_rates.readings(
                target.name, totals, now, explained=explained, example=example
            )
            if totals
            else {}
        )

    async def _ask(self, name: str, session: Session) -> dict[str, Value]:
        """All that a server says of itself."""
        started = time.perf_counter()
        await session.ask("SELECT 1")
        latency_ms = (time.perf_counter() - started) * 1000
        version = session.connection.info.server_version
        statements = sections(version, large_rows=int(self._thresholds.large_table_rows))
        answers, blind = await _answers(session, statements)
        state = answers.get("state")
        if isinstance(state, Mapping) and state.get("sees_all") is not True:
            # To others a server shows less than there is, and does not say so.
            answers = {
                section: part for section, part in answers.items() if section not in OF_OTHERS
            }
            role = session.connection.info.user
            blind |= {f"blind_{section}": missing_right(section, role) for section in OF_OTHERS}
        configured = configured_of(answers)
        if configured is not None:
            self.changes.note(name, "server", configured, self.settings.clock.now())
        readings: dict[str, Value] = {
            "reachable": True,
            "up": True,
            "exhausted": False,
            "latency_ms": round(latency_ms, 1),
            **readings_of(answers),
            **blind,
            **await self._count_scans(name, answers, statements, session),
        }
        connections, most = readings.get("connections"), readings.get("connections_max")
        if isinstance(connections, int) and isinstance(most, int):
            readings["connections_ratio"] = round(connections / most, 3)
            readings["exhausted"] = connections >= most
        if readings.get("role") == "primary":
            readings |= await write_canary(session, self._canary)
        return readings

    async def _count_scans(
        self, name: str, answers: Mapping[str, Any], statements: Mapping[str, str], session: Session
    ) -> dict[str, Value]:
        """How many rows of large tables are read one by one, per second since an earlier check.

        The first check counts twice within itself. A server updates its counters once in a second,
        so that of two checks within one the second would see nothing.
        """
        clock, scans = self.settings.clock, scans_of(answers)
        counts = self._counted.setdefault(name, [])
        while len(counts) > 1 and clock.monotonic() - counts[1][0] >= COUNTED_S_MIN:
            del counts[0]
        before = counts[0] if counts else None
        if before is None and "tables" in answers:
            before = (clock.monotonic(), scans)
            await clock.sleep(min(COUNT_S, self.settings.timeout_s / 3))
            try:
                scans = scans_of((await _answers(session, {"tables": statements["tables"]}))[0])
            except (TimeoutError, driver().Error):
                before = None  # it has reported all the rest
        now = clock.monotonic()
        counts.append((now, scans))
        if before is None or now <= before[0]:
            return {"scans_counted": False}
        return {"scans_counted": True, **rates(before[1], scans, now - before[0])}


async def _answers(
    session: Session, statements: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Value]]:
    """All answers, and `blind_SECTION` or `late_SECTION` with the reason where there is none.

    All is asked in one statement first. Where that is not allowed or takes too long, each section
    is asked for itself, so that one forbidden view hides nothing but itself.
    """
    errors = driver().errors
    refusals = (errors.InsufficientPrivilege, errors.QueryCanceled, errors.UndefinedTable)
    try:
        return await session.ask(question(statements)), {}
    except refusals:
        pass
    answers: dict[str, Any] = {}
    blind: dict[str, Value] = {}
    for name, text in statements.items():
        try:
            answers[name] = await session.ask(text)
        except errors.InsufficientPrivilege:
            blind[f"blind_{name}"] = missing_right(name, session.connection.info.user)
        except refusals as why:
            kind = "late" if isinstance(why, errors.QueryCanceled) else "blind"
            blind[f"{kind}_{name}"] = " ".join(str(why).split())[:WHY_CHARACTERS_MAX]
    return answers, blind


def local_readings(target: Target) -> dict[str, Value]:
    """Room on its disk and the length of its log; nothing of what is not on this machine."""
    if target.runs_at:
        return {}
    readings: dict[str, Value] = {}
    if target.data_dir:
        readings["disk_watched"] = True
        free, total = disk_room(data_dir_of(target)) or (0, 0)
        if total:
            readings |= {"disk_total_bytes": total, "disk_free_bytes": free}
            readings["disk_free_ratio"] = round(free / total, 4)
    if target.log:
        readings["log_bytes"] = log_bytes(target) or 0
    return readings
