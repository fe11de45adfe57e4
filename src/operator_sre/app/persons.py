"""The person behind a request: the user at the terminal or the owner of a token; their rights."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.action import MARK
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.token import Audience
from operator_protocols.errors import AuthorityError

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_protocols.domain.verdict import Verdict
    from operator_protocols.ports.world import PermissionChecker
    from operator_sre.app.tokens import Refusals
    from operator_sre.app.wiring import App

__all__ = [
    "RUNNER",
    "NoMore",
    "acting_as",
    "acting_person",
    "acting_refusals",
    "acting_role",
    "administrator",
    "agent_refusal",
    "asking_kind",
    "by_an_agent",
    "is_started_by_runner",
    "must_be_a_person",
    "myself",
    "no_more_than_acting",
    "signed_in",
]

RUNNER = "operator_sre.processes.runner.daemon"
PROC = Path("/proc")
DEPTH_MAX = 1000
WALKS_MAX = 50


@cache
def is_started_by_runner(proc: Path = PROC) -> bool:
    """Whether a runner, or a process that carries the mark of one, is among our ancestors.

    The answer stays: a process that was started by a runner may outlive it. Where there is no
    /proc, nothing is known about ancestors, and the answer is False. An ancestor that the kernel
    hides belongs to another user, and ends the chain.
    """
    if not (proc / "self" / "stat").exists():
        return False
    for _ in range(WALKS_MAX):
        found = _walk(proc)
        if found is not None:
            return found
    return True  # a chain that changes faster than it is read hides something


def _walk(proc: Path) -> bool | None:
    """Walk up the chain once; None when it changed meanwhile, because a parent ended."""
    # Not `os.getpid`: in a namespace of its own a process has another number than /proc shows.
    row = _stat(proc / "self")
    child = proc / "self"
    for _ in range(DEPTH_MAX):
        if row is None:
            return None
        number, born = row
        if number == 0:
            return False
        parent = proc / str(number)
        above = _stat(parent)
        signs = _has_signs(parent)
        # The number may belong to a new process by now: then the child has another parent.
        again = _stat(child)
        if again != row or (above is not None and above[1] > born):
            return None
        if signs:
            return True
        if above is None:
            return False
        child, row = parent, above
    return True


def _stat(process: Path) -> tuple[int, int] | None:
    """The number of its parent, and when it was started; None when it cannot be read."""
    try:
        text = (process / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name may hold spaces and brackets, so the fields are counted from its last bracket.
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), int(fields[19])


def _has_signs(process: Path) -> bool:
    """Whether a process is a runner, or has the mark of one in its environment."""
    try:
        if RUNNER.encode() in (process / "cmdline").read_bytes().split(b"\0"):
            return True
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(variable.startswith(f"{MARK}=".encode()) for variable in variables)


@dataclass(frozen=True, slots=True)
class _Acting:
    person: str = ""
    role: str = ""
    refusals: Refusals | None = None
    door: Audience | None = None


PERSON = "user"
_NOBODY = _Acting()
_ACTING: ContextVar[_Acting] = ContextVar("acting", default=_NOBODY)


def acting_person() -> str:
    """The person behind the current network request; empty at the terminal."""
    return _ACTING.get().person


def signed_in() -> str:
    """The user of this process, or the owner of the token."""
    try:
        return acting_person() or getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in some containers
        return "unknown"


def myself() -> Actor:
    """A person, who is an agent of their own on each machine; or the agent they let run us."""
    import socket  # a verdict on a command, which is wanted quickly, needs none

    person = signed_in()
    return Actor(person, asking_kind(), f"{person}@{socket.gethostname()}:{os.getpid()}")


def administrator(app: App, deed: str) -> str:
    """The signed-in person; AuthorityError unless they are an admin."""
    must_be_a_person(app)
    person = signed_in()
    if refusal := app.permissions.may_administer(person, deed):
        raise AuthorityError(refusal, next_step="Ask an admin.")
    return person


def acting_role() -> str:
    """The role of the token of the current network request; empty at the terminal."""
    return _ACTING.get().role


def by_an_agent() -> bool:
    """Whether an agent has started this process; never true for network requests.

    The variable alone proves nothing, because a command can unset it.
    """
    return not acting_person() and (MARK in os.environ or is_started_by_runner())


def asking_kind() -> str:
    """The type of the requester in an entry: a person, an agent, or a program with a token."""
    if by_an_agent():
        return "agent"
    kinds = {Audience.API: Audience.API.value, Audience.MCP: "agent"}
    door = _ACTING.get().door
    return kinds.get(door, PERSON) if door else PERSON


def agent_refusal(app: App | None = None) -> str:
    """Why this process must not decide, because it is or may be a command of an agent; or ""."""
    if by_an_agent():
        return "An agent started this process. Agents propose, and people decide."
    if app is not None and not acting_person() and app.running.is_hidden():
        return (
            "The commands of this home run outside this PID namespace, and this process may be one"
            " of them. Agents propose, and people decide."
        )
    return ""


def must_be_a_person(app: App | None = None) -> None:
    """AuthorityError in a command that an agent has started."""
    if why := agent_refusal(app):
        raise AuthorityError(why, next_step="Decide in a terminal of your own.")


def acting_refusals() -> Refusals | None:
    """The counter of refusals of network requests; None at the terminal."""
    return _ACTING.get().refusals


@contextmanager
def acting_as(
    person: str, *, role: str = "", refusals: Refusals | None = None, door: Audience | None = None
) -> Iterator[None]:
    """For the length of a `with`, and in all it starts, everything is in the name of a person.

    `role` is what their token gives them: they may no more than it, and no more than they may.
    `door` is where they came in.
    """
    before = _ACTING.set(_Acting(person, role, refusals, door))
    try:
        yield
    finally:
        _ACTING.reset(before)


def no_more_than_acting(permissions: PermissionChecker) -> PermissionChecker:
    """The permissions, limited to the role of the token of the current request."""
    acting = _ACTING.get()
    if not acting.role:
        return permissions
    return NoMore(permissions, acting.person, acting.role, acting.door)


@dataclass(frozen=True, slots=True)
class NoMore:
    """What people may; of one of them no more than a role. Either one says no for both."""

    permissions: PermissionChecker
    person: str
    role: str
    door: Audience | None = None

    def may_request(self, requester: Actor, verdict: Verdict) -> str:
        """Whether they may have this action done."""
        why = self.permissions.may_request(requester, verdict)
        return why or self._of(requester.id).may_request(requester, verdict)

    def may_approve(self, person: str, approval: Approval) -> str:
        """Whether this person's answer counts for this request."""
        why = self.permissions.may_approve(person, approval)
        return why or self._of(person).may_approve(person, approval)

    def may_approve_own(self, person: str, requester: Actor) -> str:
        """Whether a token is enough to say yes to what its owner asked for: only an admin's is.

        Otherwise the token of an approver could both request and approve. No token
        for programs says yes to what another program of its owner asked for.
        """
        if (person, person) != (self.person, requester.id):
            return ""
        if requester.type != PERSON and self.door not in (None, Audience.WEB):
            return (
                f"A program of {person!r} requested this, and no token for programs of {person!r}"
                " may approve it."
            )
        if not self._of(person).may_administer(person, "approve it"):
            return ""
        return f"{person!r} requested this, and a token of the role {self.role} may not approve it."

    def may_administer(self, person: str, deed: str) -> str:
        """Whether they may undo what holds for everybody."""
        why = self.permissions.may_administer(person, deed)
        return why or self._of(person).may_administer(person, deed)

    def _of(self, person: str) -> PermissionChecker:
        from operator_sre.gate.authority import LocalPermissions, Role

        return LocalPermissions({person: Role(self.role)} if person == self.person else {})
