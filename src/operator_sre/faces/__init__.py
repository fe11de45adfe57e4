"""SHOW IT: faces ask the app and decide nothing."""

from __future__ import annotations

__all__: list[str] = []
