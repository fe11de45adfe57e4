"""What the servers of a rig were given to keep: one row for each mark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from operator_protocols.domain.target import Target
from operator_protocols.errors import OperatorError
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.postgres.rig import SHOP
from operator_sre.subjects.postgres.session import (
    PASSWORDS_FILE,
    Login,
    RefusedError,
    Session,
    driver,
    home_of,
    open_session,
    password_in,
)

__all__ = ["PostgresDepot"]

# What a replica holds may be behind, so that only who takes writes says what is there.
KEPT = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE"
    " (SELECT coalesce(array_agg(mark), '{}') FROM receipts) END"
)


class PostgresDepot:
    """Writes where writes are taken, as the application does, and reads there."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._taker = ""
        self._password = ""

    async def put(self, mark: str) -> bool:
        """Insert one row at the first server that takes it."""
        # The server that took the last entry is asked first; without one, the order does not
        # matter.
        for target in sorted(self._servers(), key=lambda server: server.name != self._taker):
            try:
                async with self._open(target) as session:
                    await session.ask("INSERT INTO receipts VALUES (%s)", (mark,))
            except (RefusedError, driver().Error, OperatorError, OSError, TimeoutError):
                continue
            self._taker = target.name
            return True
        return False

    async def find_lost(self, marks: Sequence[str]) -> frozenset[str] | None:
        """Entries that are missing from every server that takes writes now."""
        missing: frozenset[str] | None = None
        for target in self._servers():
            try:
                async with self._open(target) as session:
                    kept = await session.ask(KEPT)
            except driver().errors.UndefinedTable:
                kept = []
            except (RefusedError, driver().Error, OperatorError, OSError, TimeoutError):
                continue
            if kept is not None:
                missing = (frozenset(marks) if missing is None else missing) - frozenset(kept)
        return missing

    def _servers(self) -> list[Target]:
        return [target for target in self._settings.targets() if target.kind == "server"]

    def _open(self, target: Target) -> AbstractAsyncContextManager[Session]:
        login = Login(SHOP, self._find_password())
        return open_session(target, login, timeout_s=self._settings.timeout_s, read_only=False)

    def _find_password(self) -> str:
        """The application's own, which lies in its directory; kept, as a client keeps it."""
        if not self._password:
            targets = self._settings.targets()
            homes = [home for target in targets if (home := home_of(target)) is not None]
            lines = (self._settings.secret(str(home / PASSWORDS_FILE)) for home in homes)
            found = (password_in(text, SHOP) for text in lines)
            self._password = next(filter(None, found), "")
        return self._password
