"""Restraints of agents: the kill switch, modes, held sessions, and limits of changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.limits import Limits, SubjectMode, SwitchState, TargetChange, Usage
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.session import SessionAction, SessionRecord, session_of
from operator_protocols.domain.verdict import Level, Mode
from operator_protocols.errors import LedgerDamagedError
from operator_sre.store.approvals import cancel_requests
from operator_sre.store.commands import touched_by
from operator_sre.store.database import Connection, Rows, plain
from operator_sre.store.decisions import UNCONFIRMED
from operator_sre.store.repository import (
    Repository,
    draft_of_user,
    in_transaction,
    marks,
    upsert_row,
)

if TYPE_CHECKING:
    from operator_sre.store.decisions import Decisions
    from operator_sre.store.transaction import Transaction

__all__ = [
    "StoredLimitUsage",
    "StoredModes",
    "StoredSessions",
    "StoredSwitch",
    "find_restraint",
    "hold_session",
    "reset_limits",
    "reset_mode",
    "reset_session",
    "set_mode",
    "turn_switch",
]

OPERATOR = "operator"
COMMANDS_MAX = 500
NEVER = datetime.fromtimestamp(0, UTC)
# A script in a sandbox changes nothing, so that its failure does not count as a failed change.
BOXED = "execute_script"
HOUR_S = 3600.0
CHANGES_READ_MAX = 1000
# The condition of the partial index, so that the planner uses it.
_CHANGES = "FROM commands WHERE subject = ? AND level <> 'safe' AND permit <> ''"
_COUNTED = (
    f"{_CHANGES} AND at > ?"  # noqa: S608
    " AND seq > (SELECT coalesce(max(seq), 0) FROM resets WHERE resets.subject = ?)"
)
_TURNS = (Kind.KILL_SWITCH_ON, Kind.KILL_SWITCH_OFF)


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


class StoredSwitch(Repository):
    """The kill switch, one for all processes on this database."""

    def state(self) -> SwitchState:
        """The state of the switch."""
        with self._decisions.snapshot(self._reader) as rows:
            return _read_switch(rows, self._decisions)

    @in_transaction
    def turn_on(self, transaction: Transaction, *, by: str, reason: str) -> Sequence[str]:
        """Stop all permits, and return the requests that were cancelled with it."""
        known = _read_switch(transaction.rows, transaction.decisions)
        if not known.on:
            payload = {"generation": known.generation + 1, "reason": reason}
            transaction.append(draft_of_user(Kind.KILL_SWITCH_ON, payload, by))
        why = "the kill switch was turned on"
        return cancel_requests(transaction, Actor(id=by, type="user"), why)

    @in_transaction
    def turn_off(self, transaction: Transaction, *, by: str, reason: str) -> None:
        """Allow new permits again; older ones stay void. Does nothing when it is off."""
        known = _read_switch(transaction.rows, transaction.decisions)
        if known.on:
            payload = {"generation": known.generation + 1, "reason": reason}
            transaction.append(draft_of_user(Kind.KILL_SWITCH_OFF, payload, by))


def _read_switch(rows: Rows, decisions: Decisions) -> SwitchState:
    """The state of the switch: off only when the ledger confirms it."""
    stored = rows("SELECT is_on, generation, by_whom, reason, at FROM kill_switch", ())
    try:
        turned = next(decisions.newest(rows, _TURNS), None)
    except LedgerDamagedError as error:
        return SwitchState(True, 0, OPERATOR, error.message.rstrip("."))
    if turned is None and not stored:
        return SwitchState()
    if turned is not None and stored:
        is_on, generation, by, reason, at = stored[0]
        on = turned.kind is Kind.KILL_SWITCH_ON
        same = (bool(is_on), generation) == (on, turned.payload["generation"])
        if same and (on or decisions.holds(rows, turned)):
            return SwitchState(on, generation, by, reason, _utc(at))
    generations = [row[1] for row in stored if isinstance(row[1], int)]
    generations += [turned.payload["generation"]] if turned else []
    at_last = turned.at if turned else None
    return SwitchState(True, max(generations, default=0), OPERATOR, UNCONFIRMED, at_last)


class StoredModes(Repository):
    """The mode that a person has set for each subject."""

    def find(self, subject: str = "") -> Sequence[SubjectMode]:
        """All modes by subject, or that of this subject; OBSERVE where the ledger differs."""
        wanted, decisions = plain(subject), self._decisions
        where, values = (" WHERE subject = ?", (wanted,)) if subject else ("", ())
        sql = f"SELECT subject, mode, by_whom, reason, at FROM modes{where}"  # noqa: S608
        with decisions.snapshot(self._reader) as rows:
            stored = {
                name: SubjectMode(name, mode, by, reason, _utc(at))
                for name, mode, by, reason, at in rows(sql, values)
            }
            last: dict[str, Entry] = {}
            try:
                for entry in decisions.newest(rows, (Kind.MODE_SET, Kind.MODE_RESET)):
                    name = plain(str(entry.payload["subject"]))
                    if name != wanted and not decisions.holds(rows, entry):
                        return _unconfirmed_modes({*stored, name, wanted})
                    last.setdefault(name, entry)
                    if name == wanted:
                        break
            except LedgerDamagedError:
                return _unconfirmed_modes({*stored, wanted})
            if subject:
                last = {name: entry for name, entry in last.items() if name == wanted}
            names = sorted({*stored, *last})
            modes = [self._confirm(rows, name, stored.get(name), last.get(name)) for name in names]
        return [mode for mode in modes if mode is not None]

    def _confirm(
        self, rows: Rows, subject: str, stored: SubjectMode | None, last: Entry | None
    ) -> SubjectMode | None:
        """The last mode, if row and ledger agree on it and a signed head covers it."""
        mode = last.payload.get("mode") if last is not None else None
        agreed = mode == (stored.mode if stored is not None else None)
        if agreed and (last is None or mode == Mode.OBSERVE or self._decisions.holds(rows, last)):
            return None if stored is None else replace(stored, mode=Mode(stored.mode))
        at = last.at if last is not None else stored.at if stored is not None else None
        assert at is not None, "one of the two is there"
        return SubjectMode(subject, Mode.OBSERVE, OPERATOR, UNCONFIRMED, at)

    async def set(self, subject: str, mode: Mode, *, by: str, reason: str) -> None:
        """Set a mode, which overrides the configured one."""
        payload = {"subject": subject, "mode": mode.value, "reason": reason}
        await self._writer.append(draft_of_user(Kind.MODE_SET, payload, by))

    @in_transaction
    def hold(
        self, transaction: Transaction, subjects: Iterable[str], *, by: str, reason: str
    ) -> Sequence[str]:
        """Set these to observe, and return all requests, which are cancelled with it."""
        for subject in subjects:
            payload = {"subject": subject, "mode": Mode.OBSERVE.value, "reason": reason}
            transaction.append(draft_of_user(Kind.MODE_SET, payload, by))
        why = "the kill switch stopped all changes"
        return cancel_requests(transaction, Actor(id=by, type="user"), why)

    async def reset(self, subject: str, *, by: str, reason: str) -> None:
        """Return to the configured mode."""
        payload = {"subject": subject, "reason": reason}
        await self._writer.append(draft_of_user(Kind.MODE_RESET, payload, by))


def _unconfirmed_modes(subjects: Iterable[str]) -> list[SubjectMode]:
    named = sorted(subject for subject in subjects if subject)
    return [SubjectMode(name, Mode.OBSERVE, OPERATOR, UNCONFIRMED, NEVER) for name in named]


class StoredSessions(Repository):
    """The recent actions of each agent, read from the commands, so that a restart keeps them."""

    def actions(self, agent: str, *, since: datetime) -> Sequence[SessionAction]:
        """The actions that an agent started since then and since its last reset, oldest first.

        Actions that a person approved and repairs that were proven are left out.
        """
        rows = self._reader.rows(
            "SELECT commands.at, tool, command, commands.level, commands.touches, touched,"
            " run, seq, coalesce(permits.approval, '') FROM commands"
            " LEFT JOIN permits ON permits.id = commands.permit"
            " WHERE session = ? AND at >= ? AND permit <> ''"
            " AND seq > (SELECT coalesce(max(seq), 0) FROM sessions WHERE agent = ?)"
            " ORDER BY at DESC, seq DESC LIMIT ?",
            (agent, since.timestamp(), agent, COMMANDS_MAX),
        )
        changes = [(row[5], row[6], row[7]) for row in rows if row[3] != Level.SAFE.value]
        proven = _proven_changes(self._reader.rows, self._decisions, changes)
        return [
            SessionAction(
                _utc(at),
                tool,
                command,
                level,
                secret="secret" in touches,
                network="network" in touches,
                blocked="blocked" in touches,
            )
            for at, tool, command, level, touches, _, _, seq, approval in reversed(rows)
            # A person answers for an approved action, and a proven repair did what it should.
            if "blocked" in touches or not (approval or seq in proven)
        ]

    def find(self, agent: str = "") -> Sequence[SessionRecord]:
        """All agents that were ever held, or this one."""
        where, values = (" WHERE agent = ?", (agent,)) if agent else ("", ())
        sql = f"SELECT agent, held, score, reason, by_whom, at FROM sessions{where}"  # noqa: S608
        decisions, kinds = self._decisions, (Kind.SESSION_HELD, Kind.SESSION_RESET)
        with decisions.snapshot(self._reader) as rows:
            sessions = {
                name: SessionRecord(name, bool(held), score, why, by, _utc(at))
                for name, held, score, why, by, at in rows(sql, values)
            }
            seen: set[str] = set()
            try:
                for entry in decisions.newest(rows, kinds):
                    name = plain(str(entry.payload["agent"]))
                    holds = decisions.holds(rows, entry)
                    if name not in seen and (not agent or name == plain(agent)):
                        known, let_go = sessions.get(name), entry.kind is Kind.SESSION_RESET
                        # Without a confirmed reset the agent counts as held.
                        if not (let_go and holds) and not (known and known.held):
                            sessions[name] = _unconfirmed_session(name, entry.at)
                    elif not holds and agent:
                        # An attacker may have replaced the name of this agent.
                        sessions[agent] = _unconfirmed_session(agent, entry.at)
                    seen.add(name)
            except LedgerDamagedError:
                return [_unconfirmed_session(name, NEVER) for name in {*sessions, agent} - {""}]
        return [sessions[name] for name in sorted(sessions)]

    @in_transaction
    def hold(self, transaction: Transaction, agent: str, *, score: int, reason: str) -> None:
        """Hold an agent in mode observe until a person resets it. Does nothing when it is held."""
        if not transaction.rows("SELECT 1 FROM sessions WHERE agent = ? AND held = 1", (agent,)):
            payload = {"agent": agent, "score": score, "reason": reason}
            transaction.append(Draft(Kind.SESSION_HELD, payload, actor=Actor(agent=agent)))

    async def reset(self, agent: str, *, by: str, reason: str) -> None:
        """Release an agent, and start a new session."""
        payload = {"agent": agent, "reason": reason}
        await self._writer.append(draft_of_user(Kind.SESSION_RESET, payload, by))


def _unconfirmed_session(agent: str, at: datetime) -> SessionRecord:
    return SessionRecord(agent, True, 0, UNCONFIRMED, OPERATOR, at)


class StoredLimitUsage(Repository):
    """The usage of limits, counted from the commands."""

    def usage(self, subject: str, limits: Limits, *, now: datetime) -> Usage:
        """The usage of these limits now."""
        return _usage(self._reader.rows, self._decisions, subject, limits, now)

    def newest(self, subject: str, tools: Sequence[str]) -> Sequence[TargetChange]:
        """The newest change of each target by one of these tools."""
        if not tools:
            return []
        rows = self._reader.rows(
            f"SELECT touched, tool, at, agent, agent_type {_CHANGES} AND tool IN ({marks(tools)})"
            " AND outcome = 'ran' AND exit_code = 0 ORDER BY at DESC, seq DESC LIMIT ?",
            (plain(subject), *tools, CHANGES_READ_MAX),
        )
        changes: dict[str, TargetChange] = {}
        for target, tool, at, agent, kind in rows:
            when, by = _utc(at), session_of(agent).partition("@")[0]
            changes.setdefault(target, TargetChange(target, tool, when, by, planned=kind == "user"))
        return list(changes.values())

    async def reset(self, subject: str, *, by: str, reason: str) -> None:
        """Start to count again."""
        payload = {"subject": subject, "reason": reason}
        await self._writer.append(draft_of_user(Kind.LIMITS_RESET, payload, by))


def find_restraint(
    transaction: Transaction, permit: Permit, limits: Limits | None, *, minted: int
) -> tuple[str, bool]:
    """Why a permit must not be used now, and whether the only reason is another running change.

    `minted` is the number of its entry. The check runs inside the transaction that uses the permit,
    so that of two processes with room for one change only one gets it.
    """
    rows, decisions = transaction.rows, transaction.decisions
    ((generation, level, approval, subject),) = rows(
        "SELECT permits.generation, permits.level, permits.approval,"
        " coalesce(tickets.subject, permits.subject) FROM permits"
        " LEFT JOIN tickets ON tickets.id = permits.ticket WHERE permits.id = ?",
        (permit.fingerprint,),
    )
    switch = _read_switch(rows, decisions)
    if switch.on:
        return "cannot be used while the kill switch is on", False
    turned = next((entry.seq for entry in decisions.newest(rows, _TURNS)), 0)
    if generation != switch.generation or minted < turned:
        return "was issued before the kill switch was turned", False
    if limits is None or level == Level.SAFE.value:
        return "", False
    now = transaction.now()
    usage = _usage(rows, decisions, subject, limits, now)
    why = limits.refusal_in_turn(usage, now)
    if not why and not approval:  # an approved action may touch more
        why = limits.question(usage, touched_by(permit.action))
    busy = "" if why else limits.busy(usage)
    return f"cannot be used now: {why or busy}" if why or busy else "", bool(busy)


def _proven_changes(
    rows: Rows, decisions: Decisions, changes: Iterable[tuple[str, str, int]]
) -> frozenset[int]:
    """Which of these changes (target, run, entry) a later proof of their run has covered."""
    proofs: dict[str, list[tuple[int, str]]] = {}
    proven = set()
    for touched, run, seq in changes:
        if run and run not in proofs:
            proofs[run] = [
                (entry.seq, str(entry.payload.get("target", "")))
                for entry in decisions.of_run(rows, run, Kind.PROOF)
                if entry.payload.get("held") is True and decisions.holds(rows, entry)
            ]
        covering = (at > seq and target in ("", touched) for at, target in proofs.get(run, ()))
        if any(covering):
            proven.add(seq)
    return frozenset(proven)


def _usage(rows: Rows, decisions: Decisions, subject: str, limits: Limits, now: datetime) -> Usage:
    at = now.timestamp()
    running = rows(f"SELECT command {_CHANGES} AND outcome = '' AND until > ?", (subject, at))
    ((changes,),) = rows(f"SELECT count(*) {_COUNTED}", (subject, at - HOUR_S, subject))
    touched = rows(
        f"SELECT touched, run, seq {_COUNTED}", (subject, at - limits.targets_window_s, subject)
    )
    # A repair that was proven is no risk any more.
    proven = _proven_changes(rows, decisions, touched)
    ended = rows(
        f"SELECT failed, ended_at {_COUNTED} AND outcome IN ('ran', 'timed_out') AND tool <> ?"
        " ORDER BY at DESC, seq DESC LIMIT ?",
        (subject, 0.0, subject, BOXED, limits.failures_max),
    )
    # The latest changes that failed in a row.
    failures = [ended_at for _, ended_at in takewhile(lambda row: row[0], ended)]
    return Usage(
        subject=subject,
        running=tuple(command for (command,) in running),
        changes=changes,
        targets=frozenset(target for target, _, seq in touched if seq not in proven),
        failures=len(failures),
        failed_at=_utc(max(failures)) if failures else None,
    )


def turn_switch(connection: Connection, entry: Entry) -> None:
    """Store the state of the kill switch."""
    is_on, generation = int(entry.kind is Kind.KILL_SWITCH_ON), entry.payload["generation"]
    row = {"id": 1, "is_on": is_on, "generation": generation, **_who_and_why(entry)}
    upsert_row(connection, "kill_switch", "id", row)


def set_mode(connection: Connection, entry: Entry) -> None:
    """Store the mode of a subject."""
    subject, mode = plain(entry.payload["subject"]), entry.payload["mode"]
    row = {"subject": subject, "mode": mode, **_who_and_why(entry)}
    upsert_row(connection, "modes", "subject", row)


def reset_mode(connection: Connection, entry: Entry) -> None:
    """Delete the mode of a subject."""
    connection.execute("DELETE FROM modes WHERE subject = ?", (plain(entry.payload["subject"]),))


def hold_session(connection: Connection, entry: Entry) -> None:
    """Mark an agent as held; its commands count from the same entry as before."""
    agent, score = plain(entry.payload["agent"]), entry.payload["score"]
    row = {"agent": agent, "seq": 0, "held": 1, "score": score, **_who_and_why(entry)}
    upsert_row(connection, "sessions", "agent", row, keep="seq")


def reset_session(connection: Connection, entry: Entry) -> None:
    """Mark an agent as released; its commands count from this entry."""
    agent = plain(entry.payload["agent"])
    row = {"agent": agent, "seq": entry.seq, "held": 0, "score": 0, **_who_and_why(entry)}
    upsert_row(connection, "sessions", "agent", row)


def _who_and_why(entry: Entry) -> dict[str, object]:
    by_whom, reason = plain(entry.actor.id), plain(entry.payload["reason"])
    return {"by_whom": by_whom, "reason": reason, "at": entry.at.timestamp()}


def reset_limits(connection: Connection, entry: Entry) -> None:
    """Count the changes of a subject from this entry."""
    row = {"subject": plain(entry.payload["subject"]), "seq": entry.seq}
    upsert_row(connection, "resets", "subject", row)
