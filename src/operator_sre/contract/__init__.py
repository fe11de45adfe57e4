"""The operator contract: what other programs ask and are told, in one versioned schema."""

from __future__ import annotations

__all__ = ["SCHEMA_VERSION"]

# Every document says it.
SCHEMA_VERSION = "1.0.0"
