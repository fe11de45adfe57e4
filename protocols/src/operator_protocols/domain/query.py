"""A Query is a search in a user's own words."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Query", "Term"]


@dataclass(frozen=True, slots=True)
class Term:
    """What was typed as one. The words of a `phrase` follow each other; a `prefix` may go on."""

    text: str
    phrase: bool = False
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Terms that must all be there; `text` is what was typed, for when no term can be looked up."""

    text: str
    terms: tuple[Term, ...]
