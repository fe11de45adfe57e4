"""4 DECIDE: judge every action, and let run only what the policy or a person permits."""

from __future__ import annotations

from operator_sre.gate.judge import judge
from operator_sre.gate.permits import Gate
from operator_sre.gate.policy import Policy, Profile

__all__ = ["Gate", "Policy", "Profile", "judge"]
