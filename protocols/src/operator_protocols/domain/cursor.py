"""A Cursor is how far a follower of the Ledger has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["Cursor"]


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last entry that a follower is done with, and what it has to remember on its way.

    One process at a time holds it, until `until`; `epoch` tells one claim from the next.
    """

    name: str
    seq: int
    epoch: int
    holder: str
    until: datetime
    note: Mapping[str, Any] = field(default_factory=dict)
