"""What faces call: one use case file for each noun, over one wiring."""

from __future__ import annotations

__all__: list[str] = []
