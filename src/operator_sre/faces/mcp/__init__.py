"""The MCP server: other minds ask here and propose; nothing here says yes to anything."""

from __future__ import annotations

__all__: list[str] = []
