"""Any text can be looked for, and quotes and stars mean what people expect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.command import Query, Term
from operator_protocols.errors import UsageError
from operator_sre.ledger.history.statistics import parse_query


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("ls -la", (Term("ls"), Term("-la"))),
        ("file.py", (Term("file.py"),)),
        ('"connection refused" node', (Term("connection refused", phrase=True), Term("node"))),
        ("resta*", (Term("resta", prefix=True),)),
        ('"get po"*', (Term("get po", phrase=True, prefix=True),)),
        ('say "hello', (Term("say"), Term("hello"))),
        ('a"b c"d', (Term("a"), Term("b c", phrase=True), Term("d"))),
        ("AND OR NOT ( *", (Term("AND"), Term("OR"), Term("NOT"), Term("("))),
        ('"" *', ()),
        ("🔥", (Term("🔥"),)),
    ],
)
def test_a_text_is_read_as_terms(text: str, terms: tuple[Term, ...]) -> None:
    assert parse_query(text) == Query(text, terms)


@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_nothing_is_looked_for_by_nobody(text: str) -> None:
    with pytest.raises(UsageError, match="query is empty"):
        parse_query(text)


@given(st.text(min_size=1).filter(str.strip))
def test_every_other_text_can_be_read(text: str) -> None:
    query = parse_query(text)
    assert query.text == text
    assert all(term.text for term in query.terms)


def test_a_huge_text_is_read_in_no_time() -> None:
    assert len(parse_query('"' * 10_000 + "a " * 5000).terms) == 5000
