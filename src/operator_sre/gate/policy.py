"""What runs by itself, as data with a digest."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.run import ToolSpec
from operator_protocols.domain.verdict import Level, Mode, Risk, Verdict
from operator_sre.codec import to_json

__all__ = ["Policy", "Profile"]


class Profile(StrEnum):
    """Which set of defaults applies."""

    STANDARD = "standard"
    LAB = "lab"


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything the gate goes by for one subject.

    The profile `lab` runs by itself all that is not BLOCKED, but only inside the boundary of a
    rig: its own typed tools, on its own targets.
    """

    mode: Mode = Mode.OBSERVE
    profile: Profile = Profile.STANDARD
    tools: tuple[ToolSpec, ...] = ()
    boundary_tools: frozenset[str] = frozenset()
    boundary_targets: frozenset[str] = frozenset()
    readable: frozenset[str] = field(default_factory=lambda: frozenset({"/var/log/"}))
    auto: frozenset[Risk] = frozenset({Risk.LOW})

    @property
    def digest(self) -> str:
        """Covers every field, so that a changed policy voids what was permitted under the old."""
        return digest_of(
            {
                "mode": self.mode,
                "profile": self.profile,
                "tools": sorted((to_json(tool) for tool in self.tools), key=digest_of),
                "boundary_tools": sorted(self.boundary_tools),
                "boundary_targets": sorted(self.boundary_targets),
                "readable": sorted(self.readable),
                "auto": sorted(self.auto),
            }
        )

    def tool(self, name: str) -> ToolSpec | None:
        """What is known of a typed tool."""
        return next((spec for spec in self.tools if spec.name == name), None)

    def inside(self, action: Action) -> bool:
        """True when an action cannot reach beyond the rig that this policy is for."""
        # A tool acts on the target in its arguments, whatever the action says that it is about.
        named = {action.target, action.arguments.get("target", action.target)}
        return action.tool in self.boundary_tools and named <= self.boundary_targets

    def runs_by_itself(self, verdict: Verdict) -> bool:
        """True when nobody has to be asked."""
        if verdict.level is Level.SAFE:
            return True
        if verdict.level is Level.BLOCKED or self.mode is not Mode.EXECUTE:
            return False
        if self.profile is Profile.LAB:
            return self.inside(verdict.action)
        return verdict.risk in self.auto
