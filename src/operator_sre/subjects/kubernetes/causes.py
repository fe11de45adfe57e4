"""The known causes as data, and which of the names that somebody else uses means the same."""

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
_ENDING = re.compile(r"(?:ing|ed|es|s)$")
STEM_MIN = 3
# A group that must match counts more than the words that only make a match better.
EXTRA = 0.5
# A word that belongs to no alternative tells that another cause is meant.
UNEXPECTED = 2.0
# Words that only say that something is wrong.
_WRONG = (
    "bad wrong incorrect invalid mismatch failure fail error exceed unavailable down kill by of"
)


@dataclass(frozen=True, slots=True)
class KnownCause:
    """A cause: its sentence, the words that its name must have, and those that it may have."""

    name: str
    sentence: str
    needed: tuple[frozenset[str], ...]
    extra: frozenset[str]


@cache
def known_causes() -> dict[str, KnownCause]:
    """The causes of causes.toml by name."""
    text = files(__package__).joinpath("causes.toml").read_text(encoding="utf-8")
    return {
        name: _parse(name, entry["sentence"], entry["words"])
        for name, entry in tomllib.loads(text).items()
    }


def name_among(cause: str, offered: Sequence[str]) -> str:
    """The offered name that means this cause; empty where none does.

    A word that few of the names have says more than one that many have.
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
        if not all(group & found for group in known.needed):
            continue
        rarity = {
            word: log(1 + len(offered) / sum(word in others for others in words.values()))
            for word in found
        }
        needed = frozenset().union(*known.needed)
        score = sum(rarity[word] for word in found & needed)
        score += EXTRA * sum(rarity[word] for word in (found & known.extra) - needed)
        score -= UNEXPECTED * sum(rarity[word] for word in found - needed - known.extra - neutral)
        if score > best_score:
            best, best_score = name, score
    return best


def _parse(name: str, sentence: str, words: str) -> KnownCause:
    needed, _, extra = words.partition(";")
    groups = tuple(frozenset(map(_stem, group.split("|"))) for group in needed.split())
    return KnownCause(name, sentence, groups, frozenset(map(_stem, extra.split())))


def _words(name: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in re.split(r"[^a-z0-9]+", name.lower()) if word)


def _stem(word: str) -> str:
    stem = _ENDING.sub("", word)
    # Again, so that `exceed` and `exceeded` end alike.
    return _stem(stem) if STEM_MIN <= len(stem) < len(word) else word
