"""The demo on a terminal. Nothing here is loaded before it is shown."""

from __future__ import annotations

__all__: list[str] = []
