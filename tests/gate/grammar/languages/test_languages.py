"""What holds for every language: a sentence of one shape, no crash, no slow input."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_sre.gate.grammar.languages import LANGUAGES, WORD_LANGUAGES
from tests.measuring import GROWTH_MAX, TIMES, growth

SIZE_MAX = 4000  # what is longer is not read
_REASON = re.compile(r"[!?]?[A-Z-][^\n]{3,117}\.")
# Pieces that open, close, quote and call in one language or another.
_PIECES = st.sampled_from(
    [
        *("select", "1", "'", '"', "`", "(", ")", "[", "]", "{", "}", ";", "--", "/*", "*/", "#"),
        *("\\", "\\(", "\n", "$", "$$", "@", "|", ">", "/", "s/", "print", "env", "db.", ".find("),
        *("a", " ", ",", ":", "as", "def f:", "\\d", "é", "\x00", "\r", "%s", "!", "$a", "y/"),
    ]
)
_TEXTS = st.text(max_size=60) | st.lists(_PIECES, max_size=30).map("".join)


@pytest.mark.parametrize("name", sorted(LANGUAGES))
@settings(max_examples=150, deadline=None)
@given(text=_TEXTS)
def test_any_text_gets_an_answer(name: str, text: str) -> None:
    reason = LANGUAGES[name](text)
    assert reason is None or _REASON.fullmatch(reason), reason


@pytest.mark.parametrize("name", sorted(WORD_LANGUAGES))
@settings(max_examples=150, deadline=None)
@given(words=st.lists(_TEXTS | st.sampled_from(["-exec", ";", "+", "{}", "config", "get"])))
def test_any_words_get_an_answer(name: str, words: list[str]) -> None:
    reason = WORD_LANGUAGES[name](words)
    assert reason is None or _REASON.fullmatch(reason), reason


_HOSTILE = [
    *(
        "(",
        "[",
        "{",
        '"',
        "'",
        "`",
        "\\",
        "\\(",
        '"\\(',
        "/",
        "/*",
        "--",
        "$",
        "a",
        "1",
        ".",
        "1.1",
    ),
    *("s/", "s/[", "[[:", "y/a", "a(", "select ", "select(", "with a(", "explain analyze "),
    *("print>", "/a/", "if(", "def f:", "def f(a):", "{a:", "db.", "db.a(", "find({", "-", "b;"),
    *("\\d ", "::", "a,", "''", '""', "\n", " ", "#\n", "a\\\n", "0~1,", "1,", "!", "{{", "[]"),
]


@pytest.mark.parametrize("name", sorted(LANGUAGES))
def test_hostile_text_takes_no_longer_than_it_is_long(name: str) -> None:
    for piece in _HOSTILE:
        for start in ("", "select "):

            def read(size: int, start: str = start, piece: str = piece) -> None:
                LANGUAGES[name](start + (piece * size)[:size])

            assert growth(read, SIZE_MAX // TIMES) <= GROWTH_MAX, (name, start, piece)


@pytest.mark.parametrize("name", sorted(WORD_LANGUAGES))
def test_hostile_words_take_no_longer_than_they_are_long(name: str) -> None:
    for before, word in (((), "-exec"), ((), "( )"), (("config", "get"), "*?"), ((), "a")):

        def read(size: int, before: tuple[str, ...] = before, word: str = word) -> None:
            repeated = word.split() * (size // len(word))
            WORD_LANGUAGES[name]([*before, *(["".join(repeated)] if before else repeated)])

        assert growth(read, SIZE_MAX // TIMES) <= GROWTH_MAX, (name, before, word)


@pytest.mark.parametrize("name", sorted(LANGUAGES))
def test_what_is_too_long_is_not_understood(name: str) -> None:
    assert LANGUAGES[name]("." + " " * 4096) == "It is too long to be understood."


@pytest.mark.parametrize("name", sorted(WORD_LANGUAGES))
def test_words_that_are_too_long_are_not_understood(name: str) -> None:
    assert WORD_LANGUAGES[name](["ping", "x" * 4096]) == "It is too long to be understood."


def test_every_language_has_a_name() -> None:
    assert sorted(LANGUAGES) == [
        *("awk", "go_template", "inspect_template", "jq", "mongo"),
        *("psql", "psql_meta", "sed", "sql", "yq"),
    ]
    assert sorted(WORD_LANGUAGES) == ["find", "redis"]
    assert len(LANGUAGES) == 10
    with pytest.raises(KeyError):
        LANGUAGES["perl"]
