"""Modes that people have set for subjects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.mode import SubjectMode
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import LedgerDamagedError
from operator_sre.store.database import plain
from operator_sre.store.decisions import UNCONFIRMED, Decisions
from operator_sre.store.reader import Reader
from operator_sre.store.writer import Writer

__all__ = ["StoredModes"]

_KINDS = (Kind.MODE_SET, Kind.MODE_RESET)


class StoredModes:
    """What a person said last about each subject."""

    def __init__(self, reader: Reader, writer: Writer, decisions: Decisions) -> None:
        self._reader = reader
        self._writer = writer
        self._decisions = decisions

    def find(self, subject: str = "") -> Sequence[SubjectMode]:
        """All of them by name, or the one of this subject; OBSERVE where the ledger differs."""
        rows = self._reader.rows
        where, values = (" WHERE subject = ?", (plain(subject),)) if subject else ("", ())
        stored = {
            name: SubjectMode(name, mode, by, reason, datetime.fromtimestamp(at, UTC))
            for name, mode, by, reason, at in rows(
                f"SELECT subject, mode, by_whom, reason, at FROM modes{where}",  # noqa: S608
                values,
            )
        }
        last: dict[str, Entry] = {}
        try:
            for entry in self._decisions.newest(rows, _KINDS):
                name = plain(str(entry.payload["subject"]))
                if name != plain(subject) and not self._holds(entry):
                    return self._nothing_confirmed({*stored, name, plain(subject)} - {""})
                last.setdefault(name, entry)
                if name == plain(subject):
                    break
        except LedgerDamagedError:
            return self._nothing_confirmed({*stored, plain(subject)} - {""})
        if subject:
            last = {name: one for name, one in last.items() if name == plain(subject)}
        return [
            mode
            for name in sorted({*stored, *last})
            if (mode := self._confirmed(name, stored.get(name), last.get(name))) is not None
        ]

    def _confirmed(
        self, subject: str, stored: SubjectMode | None, last: Entry | None
    ) -> SubjectMode | None:
        """What was said last, if row and ledger agree on it and a signed head covers it."""
        said = last.payload.get("mode") if last is not None else None
        agreed = said == (stored.mode if stored is not None else None)
        if agreed and (last is None or said == Mode.OBSERVE or self._holds(last)):
            return None if stored is None else replace(stored, mode=Mode(stored.mode))
        at = last.at if last is not None else stored.at if stored is not None else None
        assert at is not None, "one of the two is there"
        return SubjectMode(subject, Mode.OBSERVE, "operator", UNCONFIRMED, at)

    def _nothing_confirmed(self, subjects: Iterable[str]) -> Sequence[SubjectMode]:
        never = datetime.fromtimestamp(0, UTC)
        return [
            SubjectMode(one, Mode.OBSERVE, "operator", UNCONFIRMED, never)
            for one in sorted(subjects)
        ]

    def _holds(self, entry: Entry) -> bool:
        return self._decisions.holds(self._reader.rows, entry)

    async def set(self, subject: str, mode: Mode, *, by: str, reason: str) -> None:
        """It counts instead of the configured one."""
        payload = {"subject": subject, "mode": mode.value, "reason": reason}
        await self._writer.append(Draft(Kind.MODE_SET, payload, actor=Actor(id=by, type="user")))

    async def reset(self, subject: str, *, by: str, reason: str) -> None:
        """The configured one counts again."""
        payload = {"subject": subject, "reason": reason}
        await self._writer.append(Draft(Kind.MODE_RESET, payload, actor=Actor(id=by, type="user")))
