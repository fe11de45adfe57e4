"""Models: the built-in reasoner, and those of others."""

from __future__ import annotations

__all__: list[str] = []
