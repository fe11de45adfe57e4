"""The known causes as data, and which of other names means the same."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import log

__all__ = ["KnownCause", "known_causes", "name_among"]

# Endings that make no difference: exceeded, labels, mapping.
_ENDING = re.compile(r"(?:ion|ing|ed|es|s)$")
STEM_MIN = 3
# A group that must match counts more than the words that only make a match better.
EXTRA = 0.5
# A word that belongs to no alternative tells that another cause is meant.
UNEXPECTED = 2.0
# Words that only say that something is wrong.
_WRONG = (
    "bad wrong incorrect invalid mismatch conflict failure fail error exceed unavailable down kill"
    " container by of"
)


@dataclass(frozen=True, slots=True)
class KnownCause:
    """A cause: its sentence, and in which ways others name it.

    Each way has groups of words, of which a name must share one each, and words that it may have.
    """

    name: str
    sentence: str
    ways: tuple[tuple[tuple[frozenset[str], ...], frozenset[str]], ...]


@cache
def known_causes() -> dict[str, KnownCause]:
    """The causes of causes.toml by name."""
    text = files(__package__).joinpath("causes.toml").read_text(encoding="utf-8")
    return {
        name: KnownCause(name, entry["sentence"], tuple(map(_parse, _several(entry["words"]))))
        for name, entry in tomllib.loads(text).items()
    }


def name_among(cause: str, offered: Sequence[str]) -> str:
    """The offered name that means this cause; empty where none does.

    The rarer a word is among the names, the more it says.
    """
    if cause in offered:
        return cause
    known = known_causes().get(cause)
    if known is None:
        return ""
    words = {name: _words(name) for name in offered}
    neutral = _words(_WRONG)
    best, best_score = "", 0.0
    for name, found in words.items():
        rarity = {
            word: log(1 + len(offered) / sum(word in others for others in words.values()))
            for word in found
        }
        for groups, extra in known.ways:
            if not all(group & found for group in groups):
                continue
            needed = frozenset().union(*groups)
            score = sum(rarity[word] for word in found & needed)
            score += EXTRA * sum(rarity[word] for word in (found & extra) - needed)
            score -= UNEXPECTED * sum(rarity[word] for word in found - needed - extra - neutral)
            if score > best_score:
                best, best_score = name, score
    return best


def _several(words: str | list[str]) -> list[str]:
    return [words] if isinstance(words, str) else words


def _parse(words: str) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    needed, _, extra = words.partition(";")
    groups = tuple(frozenset(map(_stem, group.split("|"))) for group in needed.split())
    return groups, frozenset(map(_stem, extra.split()))


def _words(name: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in re.split(r"[^a-z0-9]+", name.lower()) if word)


def _stem(word: str) -> str:
    stem = _ENDING.sub("", word)
    # Again, so that `exceed` and `exceeded` end alike.
    return _stem(stem) if STEM_MIN <= len(stem) < len(word) else word
