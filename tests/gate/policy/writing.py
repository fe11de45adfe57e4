"""Policies as users write them, for tests."""

from __future__ import annotations

from typing import Any

import yaml

from operator_sre.gate.policy import Rulebook
from operator_sre.gate.policy.load import book_of

__all__ = ["RULE", "book", "ids", "text_of"]

RULE: dict[str, Any] = {
    "id": "depth",
    "why": "It only prints how many jobs wait.",
    "command": "jobctl",
    "subcommand": "depth",
    "match": ["jobctl depth"],
}


def text_of(**sections: Any) -> str:
    """A policy file with these sections."""
    return yaml.safe_dump({"version": 1, **sections}, sort_keys=False, width=1000)


def book(**sections: Any) -> Rulebook:
    """The built-in rules with these sections over them."""
    return book_of(text_of(**sections), "policy.yaml")


def ids(line: str, rules: Rulebook, *, cwd: str = "") -> list[str]:
    """The rules that count for a line."""
    from operator_sre.gate.policy.load import commands_of

    return [rule.id for simple in commands_of(line) for rule in rules.speaking(simple, cwd)]
