"""How much could go wrong: a score on the parsed command, and a level on the one scale."""

from __future__ import annotations

import re
from collections.abc import Iterable

from operator_protocols.domain.verdict import Level, Risk
from operator_sre.gate.grammar.reading import name_of
from operator_sre.gate.grammar.words import Simple

__all__ = ["MEDIUM_SCORE", "risk_of", "score_of"]

SUDO = 30
MEDIUM_SCORE = 20
HIGH_SCORE = 50
_WEIGHTS = {
    **dict.fromkeys(("rm", "delete", "drop", "truncate", "format"), 20),
    **dict.fromkeys(("curl", "wget", "download", "fetch", "clone"), 10),
    **dict.fromkeys(("install", "uninstall", "update", "upgrade"), 15),
}
_VERB = re.compile(r"[A-Za-z]+")
_WORDS_MAX = 256


def score_of(commands: Iterable[Simple], *, level: Level) -> int:
    """The weights of all that is said in the commands; they add up on purpose.

    A verb counts as the program, as a word of its own, as an option, or as a word of a program text
    such as SQL, never as a part of a longer word: `terraform` is no `rm`.
    """
    score = 0
    seen: set[int] = set()
    for simple in commands:
        if name_of(simple) in ("sudo", "doas"):
            score += SUDO
        for word in simple.words[:_WORDS_MAX]:
            if id(word) not in seen:  # a command inside of another has the same words
                seen.add(id(word))
                score += _weight(word.text, program=word is simple.words[0])
    return max(score, {Level.SAFE: 0, Level.REVIEW: MEDIUM_SCORE, Level.BLOCKED: HIGH_SCORE}[level])


def _weight(text: str, *, program: bool) -> int:
    if program:
        text = text.rpartition("/")[2]
    if " " not in text:
        return _WEIGHTS.get(text.lstrip("-").lower(), 0)
    return sum(_WEIGHTS.get(verb.lower(), 0) for verb in _VERB.findall(text[:1024]))


def risk_of(score: int) -> Risk:
    """The level of a score; CRITICAL is never a matter of adding up, but of a rule."""
    if score >= HIGH_SCORE:
        return Risk.HIGH
    return Risk.MEDIUM if score >= MEDIUM_SCORE else Risk.LOW
