"""The operator contract: questions and answers of other programs, in one versioned schema."""

from __future__ import annotations

__all__ = ["SCHEMA_VERSION"]

# Every document says it.
SCHEMA_VERSION = "1.0.0"
