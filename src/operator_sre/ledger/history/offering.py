"""Which patterns might help with a need that somebody puts into words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

from operator_protocols.domain.pattern import Pattern

__all__ = ["offered"]

_ENDINGS = ("ing", "ed", "es", "s")
STEM_CHARS_MIN = 3


def offered(patterns: Sequence[Pattern], need: str) -> list[Pattern]:
    """Those that share words with the need, the nearest first.

    A word that few patterns have says more than one that all have; what worked more often is
    offered before what worked less.
    """
    wanted = set(_stems(need))
    words = {pattern.name: _words(pattern) for pattern in patterns}
    known = Counter(word for found in words.values() for word in found)

    def score(pattern: Pattern) -> float:
        shared = wanted & words[pattern.name]
        weight = sum(log(1 + len(patterns) / known[word]) for word in shared)
        return weight * (0.5 + (pattern.success_rate or 0.5) / 2)

    near = [(score(pattern), pattern) for pattern in patterns]
    ranked = sorted(near, key=lambda pair: (-pair[0], -pair[1].uses, pair[1].name))
    return [pattern for value, pattern in ranked if value > 0]


def _words(pattern: Pattern) -> set[str]:
    texts = (pattern.name, pattern.category, *pattern.lines, *pattern.contexts)
    return {word for text in texts for word in _stems(text)}


def _stems(text: str) -> Iterable[str]:
    """Words without their endings, so that `restarted` is near to `restart`."""
    for word in re.findall(r"[^\W_]+", text.lower()):
        ending = next((one for one in _ENDINGS if word.endswith(one)), "")
        stem = word.removesuffix(ending)
        yield stem if len(stem) >= STEM_CHARS_MIN else word
