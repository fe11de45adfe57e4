"""Modes that people have set for subjects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.mode import SubjectMode
from operator_protocols.domain.verdict import Mode
from operator_sre.store.reader import Reader
from operator_sre.store.writer import Writer

__all__ = ["StoredModes"]


class StoredModes:
    """What a person said last about each subject."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def find(self, subject: str = "") -> Sequence[SubjectMode]:
        """All of them by name, or the one of this subject."""
        where, values = (" WHERE subject = ?", (subject,)) if subject else ("", ())
        rows = self._reader.rows(
            "SELECT subject, mode, by_whom, reason, at"  # noqa: S608
            f" FROM modes{where} ORDER BY subject",
            values,
        )
        return [
            SubjectMode(name, Mode(mode), by, reason, datetime.fromtimestamp(at, UTC))
            for name, mode, by, reason, at in rows
        ]

    async def set(self, subject: str, mode: Mode, *, by: str, reason: str) -> None:
        """It counts instead of the configured one."""
        payload = {"subject": subject, "mode": mode.value, "reason": reason}
        await self._writer.append(Draft(Kind.MODE_SET, payload, actor=Actor(id=by, type="user")))

    async def reset(self, subject: str, *, by: str, reason: str) -> None:
        """The configured one counts again."""
        payload = {"subject": subject, "reason": reason}
        await self._writer.append(Draft(Kind.MODE_RESET, payload, actor=Actor(id=by, type="user")))
