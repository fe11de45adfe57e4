"""How the operator itself does: its figures for others to read, and a heartbeat while it looks."""

from __future__ import annotations

__all__: list[str] = []
