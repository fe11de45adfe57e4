"""Minds: the built-in reasoner, and in time the models of others."""

from __future__ import annotations

__all__: list[str] = []
