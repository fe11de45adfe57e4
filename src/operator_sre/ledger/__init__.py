"""7 REMEMBER: the chain of everything that happened, and whether it is whole."""

from __future__ import annotations

from operator_sre.ledger.verify import Damage, Report, verify

__all__ = ["Damage", "Report", "verify"]
