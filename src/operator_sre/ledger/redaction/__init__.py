"""Redaction, before anything is written to the ledger or sent to a model."""

from __future__ import annotations

from operator_sre.ledger.redaction.findings import Finding, collapse
from operator_sre.ledger.redaction.redactor import Json, Redactor, Stream

__all__ = ["Finding", "Json", "Redactor", "Stream", "collapse"]
