"""In whose name something is asked: of whoever is at the keyboard, or of a token's owner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operator_protocols.domain.action import MARK

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Actor
    from operator_protocols.domain.permit import Approval
    from operator_protocols.domain.verdict import Verdict
    from operator_protocols.ports.world import PermissionChecker
    from operator_sre.app.tokens import Refusals

__all__ = [
    "NoMore",
    "acting_as",
    "acting_person",
    "acting_refusals",
    "by_an_agent",
    "no_more_than_acting",
]


@dataclass(frozen=True, slots=True)
class _Acting:
    person: str = ""
    role: str = ""
    refusals: Refusals | None = None


_NOBODY = _Acting()
_ACTING: ContextVar[_Acting] = ContextVar("acting", default=_NOBODY)


def acting_person() -> str:
    """Who asks by the network at this moment; empty when it is whoever is at the keyboard."""
    return _ACTING.get().person


def by_an_agent() -> bool:
    """Whether this is a command that was run for an agent; whoever asks by the network is not."""
    return not acting_person() and MARK in os.environ


def acting_refusals() -> Refusals | None:
    """Who counts what is refused to whoever asks by the network; None at the keyboard."""
    return _ACTING.get().refusals


@contextmanager
def acting_as(person: str, *, role: str = "", refusals: Refusals | None = None) -> Iterator[None]:
    """For the length of a `with`, and in all it starts, everything is in the name of a person.

    `role` is what their token gives them: they may no more than it, and no more than they may.
    """
    before = _ACTING.set(_Acting(person, role, refusals))
    try:
        yield
    finally:
        _ACTING.reset(before)


def no_more_than_acting(permissions: PermissionChecker) -> PermissionChecker:
    """What people may, where whoever asks by a token at this moment may no more than its role."""
    acting = _ACTING.get()
    return NoMore(permissions, acting.person, acting.role) if acting.role else permissions


@dataclass(frozen=True, slots=True)
class NoMore:
    """What people may; of one of them no more than a role. Either one says no for both."""

    permissions: PermissionChecker
    person: str
    role: str

    def may_request(self, requester: Actor, verdict: Verdict) -> str:
        """Whether they may have this action done."""
        why = self.permissions.may_request(requester, verdict)
        return why or self._of(requester.id).may_request(requester, verdict)

    def may_approve(self, person: str, approval: Approval) -> str:
        """Whether this person's answer counts for this request."""
        why = self.permissions.may_approve(person, approval)
        return why or self._of(person).may_approve(person, approval)

    def may_approve_own(self, person: str, requester: str) -> str:
        """Whether a token is enough to say yes to what its owner asked for: only an admin's is.

        Else whoever has the token of an approver would need nobody to ask and to answer.
        """
        if (person, person) != (self.person, requester):
            return ""
        if not self._of(person).may_administer(person, "approve it"):
            return ""
        return f"{person!r} asked for this, and a token of the role {self.role} may not approve it."

    def may_administer(self, person: str, deed: str) -> str:
        """Whether they may undo what holds for everybody."""
        why = self.permissions.may_administer(person, deed)
        return why or self._of(person).may_administer(person, deed)

    def _of(self, person: str) -> PermissionChecker:
        from operator_sre.gate.authority import LocalPermissions, Role

        return LocalPermissions({person: Role(self.role)} if person == self.person else {})
