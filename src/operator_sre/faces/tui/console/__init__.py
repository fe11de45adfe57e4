"""The console: everything that is under way, and a person's hands on it, in one terminal."""

from __future__ import annotations

__all__: list[str] = []
