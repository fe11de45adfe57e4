"""1 WATCH, through the eyes of others: who may tell us of alerts, and what they mean."""

from __future__ import annotations

__all__: list[str] = []
