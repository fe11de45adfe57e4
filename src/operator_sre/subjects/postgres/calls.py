"""One call of a tool of PostgreSQL: where, with what, and how it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from operator_protocols.domain.action import Argument
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.postgres.login import login_of
from operator_sre.subjects.postgres.session import Refusal, RefusedError, opened

__all__ = ["FILE_ERRORS", "Call", "RefusedCall"]

FILE_ERRORS = """
SELECT string_agg(file || ' line ' || line || ': ' || error, '; ') FROM (
    SELECT regexp_replace(sourcefile, '.*/', '') AS file, sourceline AS line, error
    FROM pg_file_settings WHERE error IS NOT NULL
        AND coalesce(name, '') NOT IN (SELECT name FROM pg_settings WHERE pending_restart)
    UNION ALL
    SELECT 'pg_hba.conf', line_number, error FROM pg_hba_file_rules WHERE error IS NOT NULL
    LIMIT 5) wrong
"""


class RefusedCall(Exception):
    """The tool does not do it, and why."""

    def __init__(self, why: str, category: FailureCategory = FailureCategory.RUNTIME) -> None:
        super().__init__(why)
        self.category = category


@dataclass(frozen=True, slots=True)
class Call:
    """One call with arguments that fit."""

    settings: SubjectSettings
    target: Target
    arguments: Mapping[str, Argument]
    timeout_s: float

    def pid(self) -> int:
        """The session that is meant."""
        value = self.arguments["pid"]
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        """One of its texts."""
        return str(self.arguments[name])

    def others(self) -> list[Target]:
        """Every other server of the subject."""
        every = self.settings.targets()
        return [one for one in every if one.kind == "server" and one.name != self.target.name]

    async def ask_other(self, other: Target, sql: str) -> object:
        """What another server answers; RefusedError when it cannot be asked."""
        timeout_s = self.settings.timeout_s
        login = login_of(self.settings, other)
        try:
            async with opened(other, login, timeout_s=timeout_s) as session:
                return await session.ask(sql)
        except TimeoutError:
            raise RefusedError(Refusal.GONE, "it does not answer in time") from None
