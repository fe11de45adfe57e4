"""4 DECIDE: judge every action, and let run only what the policy or a person permits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from operator_sre.gate.judge import judge, safer, warm
from operator_sre.gate.policy import Policy, Profile

if TYPE_CHECKING:
    from operator_sre.gate.approvals import (
        Answering,
        Course,
        Terms,
        Way,
        escalation_of,
    )
    from operator_sre.gate.authority import PERSON, GrantedCapabilities, LocalPermissions
    from operator_sre.gate.permits import Gate, Held
    from operator_sre.gate.restraint import Turns, came_late, refused_as_busy
    from operator_sre.gate.standing_rules import Standing

__all__ = [
    "PERSON",
    "Answering",
    "Course",
    "Gate",
    "GrantedCapabilities",
    "Held",
    "LocalPermissions",
    "Policy",
    "Profile",
    "Standing",
    "Terms",
    "Turns",
    "Way",
    "came_late",
    "escalation_of",
    "judge",
    "refused_as_busy",
    "safer",
    "warm",
]

# A program that only needs a verdict does not import approvals and permits.
_LIES_IN = {
    "PERSON": "authority",
    "Answering": "approvals",
    "Course": "approvals",
    "Gate": "permits",
    "GrantedCapabilities": "authority",
    "Held": "permits",
    "LocalPermissions": "authority",
    "Standing": "standing_rules",
    "Terms": "approvals",
    "Turns": "restraint",
    "Way": "approvals",
    "came_late": "restraint",
    "escalation_of": "approvals",
    "refused_as_busy": "restraint",
}

if not TYPE_CHECKING:  # so that a name that there is not is found before anything runs

    def __getattr__(name: str) -> Any:
        """What permits are made of, loaded when it is first asked for."""
        if name not in _LIES_IN:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_LIES_IN[name]}"), name)
