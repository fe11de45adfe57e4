"""Where commands run."""

from __future__ import annotations

__all__: list[str] = []
