"""What the index calls a word."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_sre.store import textindex as module
from operator_sre.store.textindex import Words, parts_of, text_of_body, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls -la", ["ls", "-la"]),
        ("It stopped.", ["it", "stopped"]),
        ("wait... what?", ["wait", "what"]),
        ("/var/log/app.log.", ["/var/log/app.log"]),
        ("/var/log/", ["/var/log"]),
        ("./run.sh --force", ["./run.sh", "--force"]),
        ("a=b,c:d", ["a", "b", "c", "d"]),
        ("C++ c#", ["c", "c"]),
        ("Größe ÉTÉ", ["grosse", "ete"]),
        ("日本語", ["日本語"]),
        ("🔥 -- / . -", []),
        ("__init__", ["__init__"]),
        ("", []),
    ],
)
def test_words_are_what_people_would_type(text: str, words: Words) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("/var/log/app.log", {"var", "log", "app.log", "app"}),
        ("--force", {"force"}),
        ("restart_node", {"restart", "node"}),
        ("node-1", {"node"}),
        ("10.0.0.1", {"10"}),
        ("plain", set()),
    ],
)
def test_what_is_inside_of_words_is_found_too(word: str, parts: set[str]) -> None:
    assert parts_of([word]) == parts


@given(st.text())
def test_words_of_words_are_the_same_words(text: str) -> None:
    words = words_of(text)
    assert words_of(" ".join(words)) == words


@given(st.text(alphabet="aZ09_./- \n=\0", max_size=300) | st.text(st.characters(max_codepoint=127)))
def test_the_quick_way_finds_the_words_of_the_expression(text: str) -> None:
    found = module._WORD.findall(text.lower())
    assert words_of(text) == [word[:128].rstrip("./-") for word in found]


def test_a_word_and_a_text_have_a_limit() -> None:
    assert words_of("x" * 1000) == ["x" * 128]
    assert len(words_of("x " * 100_000)) == 8192


def test_the_text_of_an_entry_is_its_values() -> None:
    record = {
        "kind": "proof",
        "run": "run-1",
        "actor": {"id": "ada"},
        "payload": {"a": "one", "b": [2, {"c": "three"}], "d": None, "e": True, "f": 4.5},
    }
    assert text_of_body(json.dumps(record).encode()) == "proof run-1 ada one 2 three 4.5"


@pytest.mark.parametrize("body", [None, b"", b"\xff", b"[]", b"{}", b'{"kind": 1}', b"null"])
def test_what_is_no_entry_has_no_text(body: bytes | None) -> None:
    assert text_of_body(body) == ""
