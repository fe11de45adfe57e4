"""What is known of TiKV: `tools.toml` and `causes.toml`, read once."""

from __future__ import annotations

from pathlib import Path

from operator_protocols.kit.knowledge import read_knowledge

__all__ = ["KNOWLEDGE"]

KNOWLEDGE = read_knowledge(Path(__file__).parent)
