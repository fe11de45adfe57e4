"""What each agent did lately, and who is held in observe."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.session import Deed, SessionRecord
from operator_protocols.errors import LedgerDamagedError
from operator_sre.store.database import plain
from operator_sre.store.decisions import UNCONFIRMED, Decisions
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredSessions"]

DEEDS_MAX = 500


class StoredSessions:
    """Counted from the history of commands, so that a restart forgets nothing."""

    def __init__(self, reader: Reader, writer: Writer, decisions: Decisions) -> None:
        self._reader = reader
        self._writer = writer
        self._decisions = decisions

    def deeds(self, agent: str, *, since: datetime) -> Sequence[Deed]:
        """What it began since then and since its last reset, oldest first."""
        rows = self._reader.rows(
            "SELECT at, tool, command, level, touches FROM commands"
            " WHERE session = ? AND at >= ? AND permit <> ''"
            " AND seq > (SELECT coalesce(max(seq), 0) FROM sessions WHERE agent = ?)"
            " ORDER BY at DESC, seq DESC LIMIT ?",
            (agent, since.timestamp(), agent, DEEDS_MAX),
        )
        return [
            Deed(
                datetime.fromtimestamp(at, UTC),
                tool,
                command,
                level,
                secret="secret" in touches,
                network="network" in touches,
            )
            for at, tool, command, level, touches in reversed(rows)
        ]

    def find(self, agent: str = "") -> Sequence[SessionRecord]:
        """Everybody who was ever held, or this one."""
        where, values = (" WHERE agent = ?", (agent,)) if agent else ("", ())
        rows = self._reader.rows(
            "SELECT agent, held, score, reason, by_whom, at"  # noqa: S608
            f" FROM sessions{where} ORDER BY agent",
            values,
        )
        found = {
            name: SessionRecord(
                name, bool(held), score, reason, by, datetime.fromtimestamp(at, UTC)
            )
            for name, held, score, reason, by, at in rows
        }
        seen: set[str] = set()
        kinds = (Kind.SESSION_HELD, Kind.SESSION_RESET)
        try:
            for entry in self._decisions.newest(self._reader.rows, kinds):
                name = plain(str(entry.payload["agent"]))
                holds = self._decisions.holds(self._reader.rows, entry)
                if name not in seen and (not agent or name == plain(agent)):
                    known, let_go = found.get(name), holds and entry.kind is Kind.SESSION_RESET
                    if not let_go and not (known and known.held):  # the row says less than that
                        found[name] = _held(name, entry.at)
                elif not holds and agent:
                    found[agent] = _held(agent, entry.at)  # it may have been about this one
                seen.add(name)
        except LedgerDamagedError:
            return [_held(name, datetime.fromtimestamp(0, UTC)) for name in {*found, agent} - {""}]
        return [found[name] for name in sorted(found)]

    async def hold(self, agent: str, *, score: int, reason: str) -> None:
        """Hold it in observe until a person resets it; fine when it is held already."""

        def change(transaction: Transaction) -> None:
            held = transaction.connection.execute(
                "SELECT 1 FROM sessions WHERE agent = ? AND held = 1", (agent,)
            ).fetchone()
            if not held:
                payload = {"agent": agent, "score": score, "reason": reason}
                transaction.append(Draft(Kind.SESSION_HELD, payload, actor=Actor(agent=agent)))

        await self._writer.write(change)

    async def reset(self, agent: str, *, by: str, reason: str) -> None:
        """Let it go, and begin its session anew."""
        payload = {"agent": agent, "reason": reason}
        await self._writer.append(
            Draft(Kind.SESSION_RESET, payload, actor=Actor(id=by, type="user"))
        )


def _held(agent: str, at: datetime) -> SessionRecord:
    """One that is held because nothing says for certain that it is not."""
    return SessionRecord(agent, True, 0, UNCONFIRMED, "operator", at)
