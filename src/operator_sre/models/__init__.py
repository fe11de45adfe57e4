"""Minds: the built-in reasoner, and the models of others."""

from __future__ import annotations

__all__: list[str] = []
