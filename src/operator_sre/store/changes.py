"""What was changed about a subject, and whether one more change may begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.limits import Change, Limits, Usage
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.session import session_of
from operator_protocols.domain.verdict import Level
from operator_sre.store.attempts import touched_by
from operator_sre.store.database import plain
from operator_sre.store.reader import Reader
from operator_sre.store.switch import last_turned, switch_state
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredChanges", "held_back"]

# What runs in a box changes nothing, so that its failing says nothing about changes.
BOXED = "execute_script"
HOUR_S = 3600.0
CHANGES_READ_MAX = 1000
Rows = Callable[[str, Sequence[object]], list[Any]]
# The words of the index, so that it is used.
_CHANGES = "FROM commands WHERE subject = ? AND level <> 'safe' AND permit <> ''"
_COUNTED = (
    f"{_CHANGES} AND at > ?"  # noqa: S608
    " AND seq > (SELECT coalesce(max(seq), 0) FROM resets WHERE resets.subject = ?)"
)


class StoredChanges:
    """Counted from the history of commands."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def usage(self, subject: str, limits: Limits, *, now: datetime) -> Usage:
        """What these limits go by, as it is now."""
        return _usage(self._reader.rows, subject, limits, now)

    def newest(self, subject: str, tools: Sequence[str]) -> Sequence[Change]:
        """The newest change of each target by one of these tools."""
        if not tools:
            return []
        marks = ", ".join("?" * len(tools))
        rows = self._reader.rows(
            f"SELECT touched, tool, at, agent, agent_type {_CHANGES} AND tool IN ({marks})"
            " AND outcome = 'ran' AND exit_code = 0 ORDER BY at DESC, seq DESC LIMIT ?",
            (plain(subject), *tools, CHANGES_READ_MAX),
        )
        found: dict[str, Change] = {}
        for target, tool, at, agent, kind in rows:
            when, by = datetime.fromtimestamp(at, UTC), session_of(agent).partition("@")[0]
            found.setdefault(target, Change(target, tool, when, by, planned=kind == "user"))
        return list(found.values())

    async def reset(self, subject: str, *, by: str, reason: str) -> None:
        """Count from here on."""
        payload = {"subject": subject, "reason": reason}
        await self._writer.append(
            Draft(Kind.LIMITS_RESET, payload, actor=Actor(id=by, type="user"))
        )


def held_back(
    transaction: Transaction, permit: Permit, limits: Limits | None, *, minted: int
) -> tuple[str, bool]:
    """Why a permit must not be used now, seen inside the transaction that would use it.

    With it, whether that is nothing but another change that runs. `minted` is its entry.

    No other writer is in there, so of two who both saw room for one change only one gets it.
    """
    rows, decisions = transaction.rows, transaction.decisions
    (found,) = rows(
        "SELECT permits.generation, permits.level, permits.approval,"
        " coalesce(tickets.subject, permits.subject) FROM permits"
        " LEFT JOIN tickets ON tickets.id = permits.ticket WHERE permits.id = ?",
        (permit.fingerprint,),
    )
    generation, level, approval, subject = found
    switch = switch_state(rows, decisions)
    if switch.on:
        return "cannot be used while the kill switch is on", False
    if generation != switch.generation or minted < last_turned(rows, decisions):
        return "was given before the kill switch was turned", False
    if limits is None or level == Level.SAFE.value:
        return "", False
    now = transaction.now()
    usage = _usage(rows, subject, limits, now)
    why = limits.refusal_in_turn(usage, now)
    if not why and not approval:  # a person may let it touch more
        why = limits.question(usage, touched_by(permit.action))
    busy = "" if why else limits.busy(usage)
    return f"cannot be used now: {why or busy}" if why or busy else "", bool(busy)


def _usage(rows: Rows, subject: str, limits: Limits, now: datetime) -> Usage:
    at = now.timestamp()
    running = rows(f"SELECT command {_CHANGES} AND outcome = '' AND until > ?", (subject, at))
    ((changes,),) = rows(f"SELECT count(*) {_COUNTED}", (subject, at - HOUR_S, subject))
    targets = rows(
        f"SELECT DISTINCT touched {_COUNTED}", (subject, at - limits.targets_window_s, subject)
    )
    ended = rows(
        f"SELECT failed, ended_at {_COUNTED} AND outcome IN ('ran', 'timed_out') AND tool <> ?"
        " ORDER BY at DESC, seq DESC LIMIT ?",
        (subject, 0.0, subject, BOXED, limits.failures_max),
    )
    streak = _streak(ended)
    return Usage(
        subject=subject,
        running=tuple(command for (command,) in running),
        changes=changes,
        targets=frozenset(target for (target,) in targets),
        failures=len(streak),
        failed_at=datetime.fromtimestamp(max(streak), UTC) if streak else None,
    )


def _streak(ended: Sequence[Any]) -> list[float]:
    """When the newest ended that failed one after another."""
    found: list[float] = []
    for failed, at in ended:
        if not failed:
            break
        found.append(at)
    return found
