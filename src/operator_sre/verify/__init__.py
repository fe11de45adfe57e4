"""6 PROVE: check again until the invariants hold or the deadline passes."""

from __future__ import annotations

from operator_sre.verify.prove import NO_CONCERN, Concern, Verifier

__all__ = ["NO_CONCERN", "Concern", "Verifier"]
