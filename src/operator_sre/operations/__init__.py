"""Everything that can be asked of an operator home, one module for each noun;
`project` holds verbs without a noun.

Modules are loaded when they are asked for, so that a command waits for no noun but its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from operator_sre.operations.operation import Operation

__all__ = ["NOUNS", "all_operations", "operations_of"]

NOUNS = (
    *("tickets", "silences", "changes", "session", "limits", "kill-switch", "tokens"),
    *("approvals", "confirmations", "mode", "history", "audit", "subjects", "health"),
    *("workflows", "packs", "policy", "hub", "secrets", "store", "project", "status"),
)


def operations_of(noun: str) -> tuple[Operation, ...]:
    """The operations of one noun."""
    module = import_module(f"{__name__}.{noun.replace('-', '_')}")
    found: tuple[Operation, ...] = module.OPERATIONS
    return found


def all_operations() -> Iterator[Operation]:
    """Every operation there is."""
    for noun in NOUNS:
        yield from operations_of(noun)
