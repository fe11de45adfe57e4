"""Expressions of yq that only compute from their input, whichever of the two yq reads them."""

from __future__ import annotations

from operator_sre.gate.grammar.languages.jq import walk
from operator_sre.gate.grammar.languages.jq_functions import YQ, YQ_REFUSED
from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG
from operator_sre.gate.grammar.patterns import re

__all__ = ["yq"]

# A key may hold dashes for one yq, and is a subtraction for the other: both have to be harmless.
_DASHED = re.compile(r"\.[A-Za-z_][A-Za-z0-9_]*+(?:-[A-Za-z0-9_]++)++")
# For one yq a path goes on through a quote, unless one of these stands before it.
_QUOTE_IN_PATH = re.compile(r'[^ \n;}{:\[\],|.()=!"\\]"')
_STRING = re.compile(r'"(?:[^"\\]|\\[^(])*+"')


def yq(text: str) -> str | None:
    """Why this expression is not proven to only compute; None when it is."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    if "#" in text or "\\(" in text:
        return "A comment or an expression inside of a string is not understood."
    # What remains has empty strings only, so a quote in it that has a neighbour opens a string.
    bare = _STRING.sub('""', text)
    if _QUOTE_IN_PATH.search(bare):
        return "Not every yq reads this quote in the same way."
    for dashed in _DASHED.findall(bare):
        for part in dashed.split("-")[1:]:
            if part in YQ_REFUSED:
                return YQ_REFUSED[part]
    return walk(_DASHED.sub(".x", bare), YQ, YQ_REFUSED, strict_keys=True)
