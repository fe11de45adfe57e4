"""Campaigns and trials in a browser: pages that need no script, read from a database of facts."""

from __future__ import annotations

__all__: list[str] = []
