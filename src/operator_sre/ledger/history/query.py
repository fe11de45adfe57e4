"""Parses the query of a search, whatever a user types."""

from __future__ import annotations

import re

from operator_protocols.domain.command import Query, Term
from operator_protocols.errors import UsageError

__all__ = ["parse_query"]

# A quoted phrase, a word, or a quote that is never closed, which means nothing.
_TERM = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)|"')


def parse_query(text: str) -> Query:
    """Terms that must all be there: words, `"phrases"`, and beginnings with a `*` behind.

    No text is wrong but an empty one; what looks like an operator elsewhere is a word here.
    """
    if not text.strip():
        raise UsageError("The query is empty.", next_step="Name at least one word.")
    terms = []
    for phrase, star, word in _TERM.findall(text):
        if phrase:
            terms.append(Term(phrase.strip(), phrase=True, prefix=bool(star)))
        else:
            terms.append(Term(word.rstrip("*"), prefix=word.endswith("*")))
    return Query(text, tuple(term for term in terms if term.text))
