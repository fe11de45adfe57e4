"""The policy: rules that users edit, and what follows from them."""

from __future__ import annotations

from operator_sre.gate.policy.egress import Egress
from operator_sre.gate.policy.policy import Policy, Profile, Rulebook, Services, built_in
from operator_sre.gate.policy.rule import Decision, Override, PolicyRule

__all__ = [
    "Decision",
    "Egress",
    "Override",
    "Policy",
    "PolicyRule",
    "Profile",
    "Rulebook",
    "Services",
    "built_in",
]
