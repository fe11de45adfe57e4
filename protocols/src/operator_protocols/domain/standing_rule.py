"""A StandingRule is a person's yes to everything that is like one approved command."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from operator_protocols.domain.verdict import Risk

__all__ = ["Likeness", "Scope", "StandingRule"]


class Likeness(StrEnum):
    """How like the approved command another must be."""

    EXACT = "exact"
    FLAGS = "flags"
    PATH = "path"


class Scope(StrEnum):
    """Where a rule holds."""

    TICKET = "ticket"
    SUBJECT = "subject"
    EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class StandingRule:
    """A rule that lets actions run without approval until it is revoked; never a BLOCKED one.

    `argv` are the words of the one plain command that was approved, or the arguments of a typed
    tool. `path` is the directory of a rule that is PATH, `risk` the most that it allows.
    """

    id: str
    likeness: Likeness
    scope: Scope
    tool: str
    argv: tuple[str, ...]
    cwd: str
    target: str
    risk: Risk
    made_at: datetime
    made_by: str
    subject: str = ""
    ticket: int | None = None
    path: str = ""
    approval: str = ""
    reason: str = ""
    uses: int = 0
    revoked_at: datetime | None = None
    revoked_by: str = ""
    revoked_because: str = ""

    @property
    def stands(self) -> bool:
        """True until the rule is revoked."""
        return self.revoked_at is None
