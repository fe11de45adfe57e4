"""7 REMEMBER: the chain of everything that happened, and whether it is whole."""

from __future__ import annotations

from operator_sre.ledger.keys import KeyFile
from operator_sre.ledger.verify import Anchor, Damage, DamageKind, Report, verify

__all__ = ["Anchor", "Damage", "DamageKind", "KeyFile", "Report", "verify"]
