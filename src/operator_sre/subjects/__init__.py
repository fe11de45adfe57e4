"""One folder for each system we know, found by entry point and never imported by name."""

from __future__ import annotations

__all__: list[str] = []
