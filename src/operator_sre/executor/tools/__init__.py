"""Typed tools that every subject has."""

from __future__ import annotations

__all__: list[str] = []
