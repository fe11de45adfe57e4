"""A module of the tests as a program: `MODULE WORDS...`, for a warm process that has loaded it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

__all__ = ["main"]


def main(words: Sequence[str]) -> None:
    """Be what `python -m MODULE WORDS...` would be."""
    import_module(words[0]).main(words[1:])
