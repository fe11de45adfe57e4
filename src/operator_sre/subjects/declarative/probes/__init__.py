"""The probes: one file for each kind."""

from __future__ import annotations

__all__: list[str] = []
