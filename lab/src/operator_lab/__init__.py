"""Break it: disposable copies of subjects, faults and load."""

from __future__ import annotations

__all__: list[str] = []
