"""The MCP server: other agents read and propose; nothing here approves anything."""

from __future__ import annotations

__all__: list[str] = []
