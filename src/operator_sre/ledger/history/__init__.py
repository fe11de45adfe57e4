"""What follows from the history of commands: statistics, patterns, and questions to it. Pure."""

from __future__ import annotations

__all__: list[str] = []
