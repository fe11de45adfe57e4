"""Tells people what happened: follows the ledger, gathers, and sends without holding anybody up."""

from __future__ import annotations

__all__: list[str] = []
