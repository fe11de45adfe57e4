"""Who may ask, who may approve, and what an agent may: the defaults for one local user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.session import session_of
from operator_protocols.domain.verdict import Level, Risk, Verdict

__all__ = ["PERSON", "Grant", "GrantedCapabilities", "LocalPermissions", "Role"]

# What kind of requester a person is; all others are agents or machines.
PERSON = "user"


class Role(StrEnum):
    """What a person is to Operator."""

    VIEWER = "viewer"
    APPROVER = "approver"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class LocalPermissions:
    """Without roles everybody may do everything. With roles, a person without one is a viewer.

    The monitor may always make a request. A person, or the person behind an agent, needs a role
    above viewer for it.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)

    def may_request(self, requester: Actor, verdict: Verdict) -> str:
        """Whether they may have this action done."""
        # A person asks, at a keyboard of theirs or through an agent that they run there.
        named = requester.type == PERSON or requester.agent.startswith(f"{requester.id}@")
        if not named or verdict.level is Level.SAFE:
            return ""
        if self._role(requester.id) is Role.VIEWER:
            return f"{requester.id!r} is a viewer and cannot request changes."
        return ""

    def may_approve(self, person: str, approval: Approval) -> str:
        """Whether this person's answer counts for this request."""
        role = self._role(person)
        people = [name for approver in approval.chain for name in approver.people]
        if people and person not in people and self.roles.get(person) is not Role.ADMIN:
            names = ", ".join(dict.fromkeys(approver.name for approver in approval.chain))
            return f"{person!r} is not an approver of {approval.risk} risk. They are: {names}."
        if role is Role.VIEWER:
            return f"{person!r} is a viewer and cannot answer requests."
        if role is Role.APPROVER and approval.risk > Risk.HIGH:
            return (
                f"{person!r} is an approver and can answer requests up to high risk, not critical."
            )
        return ""

    def may_administer(self, person: str, deed: str) -> str:
        """Whether they may undo what holds for everybody."""
        role = self._role(person)
        return "" if role is Role.ADMIN else f"{person!r} is not an admin and may not {deed}."

    def _role(self, person: str) -> Role:
        return self.roles.get(person, Role.VIEWER) if self.roles else Role.ADMIN


@dataclass(frozen=True, slots=True)
class Grant:
    """What an agent may have done; without names of tools it is all of them."""

    levels: frozenset[Level] = frozenset({Level.SAFE, Level.REVIEW})
    tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GrantedCapabilities:
    """Agents may propose anything and act as the mode says, unless something was granted.

    Then an agent has its own grant, the one of `*`, or none at all.
    """

    grants: Mapping[str, Grant] = field(default_factory=dict)

    def may_act(self, agent: str, verdict: Verdict) -> str:
        """Why this agent may not have this action done, or ""."""
        if not self.grants:
            return ""
        name = session_of(agent)
        grant = self.grants.get(name) or self.grants.get("*")
        if grant is None:
            return f"The agent {name!r} was granted nothing."
        if verdict.level not in grant.levels:
            return f"The agent {name!r} has no grant for {verdict.level} actions."
        tool = verdict.action.tool
        if grant.tools and tool not in grant.tools:
            return f"The agent {name!r} was not granted the tool {tool!r}."
        return ""
