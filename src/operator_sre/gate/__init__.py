"""4 DECIDE: judge every action, and let run only what the policy or a person permits."""

from __future__ import annotations

from operator_sre.gate.approvals import Answering, Terms
from operator_sre.gate.authority import PERSON, GrantedCapabilities, LocalPermissions
from operator_sre.gate.course import Course, Way
from operator_sre.gate.judge import judge, safer, warm
from operator_sre.gate.permits import Gate, Held
from operator_sre.gate.policy import Policy, Profile
from operator_sre.gate.standing import Standing
from operator_sre.gate.turns import Turns, came_late, refused_as_busy

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
    "judge",
    "refused_as_busy",
    "safer",
    "warm",
]
