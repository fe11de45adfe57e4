"""The HTTP API: what people do at the terminal, for programs with a token."""

from __future__ import annotations

__all__: list[str] = []
