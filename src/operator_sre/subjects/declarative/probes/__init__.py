"""What can be asked of a target: one file for each kind of question."""

from __future__ import annotations

__all__: list[str] = []
