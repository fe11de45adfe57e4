"""Plain words and names everywhere, and each rule can fail."""

import pytest

from tests.every import every
from tests.tidy.findings import expect_none
from tests.tidy.sources import ROOT
from voice import EXPLAINED, find_names, find_words, read_findings


def test_words_and_names_are_plain_or_explained() -> None:
    findings = read_findings(ROOT)
    expect_none(
        f"{finding.path}:{finding.line} {finding.word!r}; instead: {finding.instead}"
        for finding in findings
        if finding.path not in EXPLAINED
    )
    assert set(EXPLAINED) <= {finding.path for finding in findings}


@every(
    "sentence",
    [
        "Whoever asks is refused.",
        "Nobody may write here.",
        "It is started anew.",
        "A person is told.",
        "those that are over",
        "An agent is a mind.",
        "It was mended.",
        "3 of 5 right ends",
        "'x' is no time.",
        "What is shown",
        "It is cut off from everybody.",
        "Nothing waits for an approval.",
        "It is a file of the caller's choice.",
        "It has another quota than the others.",
        "95 of 100 answers took 3 ms",
        "This row is no test.",
    ],
)
def test_a_banned_word_is_found_in_texts_of_every_kind(sentence: str) -> None:
    assert next(find_words("docs/sample.md", sentence)).kind == "text"
    assert next(find_words("src/a.py", f"x = {sentence!r}")).kind == "text"


def test_comments_and_docstrings_are_told_from_strings() -> None:
    text = '"""Whoever reads."""\n# whoever\nx = "whoever comes"\n'
    found = [(finding.kind, finding.line) for finding in find_words("src/a.py", text)]
    assert sorted(found) == [("comment", 1), ("comment", 2), ("text", 3)]


def test_a_finding_names_the_line_of_its_word() -> None:
    assert [finding.line for finding in find_words("a.md", "fine\n\nanew\n")] == [3]


@every(
    "sentence",
    [
        "the user `nobody`",
        "user=nobody:",
        "He aimed to amend it.",
        "in mind",
        "There is no ticket 7.",
        "It is no longer there.",
        "3 of 100 answers",
    ],
)
def test_ordinary_words_are_not_found(sentence: str) -> None:
    assert list(find_words("docs/sample.md", sentence)) == []


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("src/telling.py", "", ["telling"]),
        ("src/deed.py", "", ["deed"]),
        ("src/ticket.py", "def _told(): ...", ["_told()"]),
        ("src/ticket.py", "def opened(): ...", ["opened()"]),
        ("src/ticket.py", "one = 1", ["one"]),
        ("src/ticket.py", "def f(said): ...", ["said"]),
        ("src/ticket.py", "def feed(): ...\ndef open_ticket(): ...\ndef is_closed(): ...", []),
        ("src/ticket.py", "class A:\n @property\n def closed(self): ...", []),
    ],
)
def test_names_that_hide_their_thing_are_found(path: str, text: str, words: list[str]) -> None:
    assert [finding.word for finding in find_names(path, text)] == words
