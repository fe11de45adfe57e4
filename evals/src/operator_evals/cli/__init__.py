"""The command `operator eval`."""

from __future__ import annotations

__all__: list[str] = []
