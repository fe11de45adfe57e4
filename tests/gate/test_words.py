"""The words that the gate judges are the words that a shell passes on."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_sre.gate.words import fragments_of, words_of

_BARE = st.text(st.sampled_from("abcXYZ019_./:=,+@%-"), min_size=1, max_size=8)
_QUOTED = st.text(st.sampled_from('abc XYZ019$`"\\;&|<>(){}[]*?~!#\t\n'), max_size=8).map(
    lambda text: f"'{text}'"
)
_LINES = st.lists(_BARE | _QUOTED, min_size=1, max_size=5).map(lambda words: "  ".join(words))


@settings(max_examples=60, deadline=None)
@given(_LINES)
def test_a_real_shell_sees_the_same_words(line: str) -> None:
    words = words_of(f"printf {line}")
    if words is None:
        assert "\t" in line or "\n" in line
        return
    # Only `printf` runs: everything behind it is bare or in single quotes by construction.
    shown = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, timeout=20
    )
    assert shown.stdout.decode().split("\0")[:-1] == list(words[1:])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("uptime", ("uptime",)),
        ("  ps   -p 1 ", ("ps", "-p", "1")),
        ("tail 'a b' ''", ("tail", "a b", "")),
        ("a=1", None),
        ("a=1 b", None),
        ("'a=1' b", None),
        ("a 'b'c", None),
        ("a b'c'", None),
        ("a 'b", None),
        ('a "b"', None),
        ("", None),
        ("   ", None),
        ("a\tb", None),
        ("a\n", None),
        ("é", None),
        ("a 'é'", None),
    ],
)
def test_anything_more_than_plain_words_is_not_understood(
    line: str, words: tuple[str, ...] | None
) -> None:
    assert words_of(line) == words


@pytest.mark.parametrize(
    ("line", "fragments"),
    [
        ("a;b", ("a", "b")),
        ("$(reboot)", ("reboot",)),
        ("`x`|y&z>f", ("x", "y", "z", "f")),
        ("'a' \"b\" {c} \\d", ("a", "b", "c", "d")),
        (";;;", ()),
        ("", ()),
    ],
)
def test_what_is_not_understood_is_taken_apart_at_every_special_character(
    line: str, fragments: tuple[str, ...]
) -> None:
    assert fragments_of(line) == fragments


@given(st.text(max_size=50))
def test_fragments_are_never_empty(line: str) -> None:
    assert all(fragments_of(line))
