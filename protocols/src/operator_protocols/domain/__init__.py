"""What things are: frozen dataclasses and enums, no input or output."""

from __future__ import annotations

__all__: list[str] = []
