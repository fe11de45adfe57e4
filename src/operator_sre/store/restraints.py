"""What follows from an entry for what restrains: the switch, modes, sessions and resets."""

from __future__ import annotations

from operator_protocols.domain.entry import Entry, Kind
from operator_sre.store.database import Connection, plain

__all__ = ["limits_reset", "mode_reset", "mode_set", "session_held", "session_reset", "switched"]


def switched(connection: Connection, entry: Entry) -> None:
    """The switch stands as it was turned last."""
    connection.execute(
        "INSERT INTO kill_switch (id, is_on, generation, by_whom, reason, at)"
        " VALUES (1, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET is_on = excluded.is_on,"
        " generation = excluded.generation, by_whom = excluded.by_whom,"
        " reason = excluded.reason, at = excluded.at",
        (
            int(entry.kind is Kind.KILL_SWITCH_ON),
            entry.payload["generation"],
            plain(entry.actor.id),
            plain(entry.payload["reason"]),
            entry.at.timestamp(),
        ),
    )


def mode_set(connection: Connection, entry: Entry) -> None:
    """The mode of a subject is what was said last."""
    connection.execute(
        "INSERT INTO modes (subject, mode, by_whom, reason, at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (subject) DO UPDATE SET mode = excluded.mode,"
        " by_whom = excluded.by_whom, reason = excluded.reason, at = excluded.at",
        (
            plain(entry.payload["subject"]),
            entry.payload["mode"],
            plain(entry.actor.id),
            plain(entry.payload["reason"]),
            entry.at.timestamp(),
        ),
    )


def mode_reset(connection: Connection, entry: Entry) -> None:
    """Nobody has said anything about it."""
    connection.execute("DELETE FROM modes WHERE subject = ?", (plain(entry.payload["subject"]),))


def session_held(connection: Connection, entry: Entry) -> None:
    """An agent is held; from where its deeds count stays as it was."""
    connection.execute(
        "INSERT INTO sessions (agent, seq, held, score, by_whom, reason, at)"
        " VALUES (?, 0, 1, ?, ?, ?, ?) ON CONFLICT (agent) DO UPDATE SET held = 1,"
        " score = excluded.score, by_whom = excluded.by_whom, reason = excluded.reason,"
        " at = excluded.at",
        (
            plain(entry.payload["agent"]),
            entry.payload["score"],
            plain(entry.actor.id),
            plain(entry.payload["reason"]),
            entry.at.timestamp(),
        ),
    )


def session_reset(connection: Connection, entry: Entry) -> None:
    """An agent is let go, and its deeds count from here on."""
    connection.execute(
        "INSERT INTO sessions (agent, seq, held, score, by_whom, reason, at)"
        " VALUES (?, ?, 0, 0, ?, ?, ?) ON CONFLICT (agent) DO UPDATE SET seq = excluded.seq,"
        " held = 0, score = 0, by_whom = excluded.by_whom, reason = excluded.reason,"
        " at = excluded.at",
        (
            plain(entry.payload["agent"]),
            entry.seq,
            plain(entry.actor.id),
            plain(entry.payload["reason"]),
            entry.at.timestamp(),
        ),
    )


def limits_reset(connection: Connection, entry: Entry) -> None:
    """What was changed about a subject counts from here on."""
    connection.execute(
        "INSERT INTO resets (subject, seq) VALUES (?, ?)"
        " ON CONFLICT (subject) DO UPDATE SET seq = excluded.seq",
        (plain(entry.payload["subject"]), entry.seq),
    )
