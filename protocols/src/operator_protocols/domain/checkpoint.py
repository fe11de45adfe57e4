"""A Checkpoint is the head of the Ledger, signed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Checkpoint"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The signed bytes say which entry was the head, what its hash was, and what came before."""

    seq: int
    body: bytes
    key: str
    signature: bytes
