"""6 PROVE: look again until it holds, or the deadline passes."""

from __future__ import annotations

from operator_sre.verify.prove import Verifier

__all__ = ["Verifier"]
