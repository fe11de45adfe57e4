"""The commands `operator lab`, `operator deploy` and `operator demo`."""

from __future__ import annotations

__all__: list[str] = []
