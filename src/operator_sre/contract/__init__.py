"""The operator contract: what other programs ask and are told, in one versioned schema."""

from __future__ import annotations

__all__: list[str] = []
