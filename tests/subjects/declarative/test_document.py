"""Hostile and mistaken YAML: one sentence with the line, never a traceback, never anything run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.errors import ConfigError
from operator_sre.subjects.declarative.description import describe
from operator_sre.subjects.declarative.document import (
    DEPTH_MAX,
    FILE_BYTES_MAX,
    Node,
    parse,
    wrong,
)


def plain(node: Node) -> object:
    """A node without its lines."""
    if isinstance(node.value, dict):
        return {key: plain(one) for key, one in node.value.items()}
    if isinstance(node.value, list):
        return [plain(one) for one in node.value]
    return node.value


def test_words_mean_what_they_look_like() -> None:
    text = "on: no\nyes: [1, -2, 1.5, 1e3, 0x10, 010, '7', true, null, ~, 12:30, 2026-01-02]\n"
    assert plain(parse(text, "f")) == {
        "on": "no",
        "yes": [1, -2, 1.5, 1000.0, "0x10", "010", "7", True, None, None, "12:30", "2026-01-02"],
    }


def test_every_value_and_key_knows_its_line() -> None:
    root = parse("a: 1\n\nb:\n  c: [\n    2]\n", "f")
    assert isinstance(root.value, dict)
    assert root.lines == {"a": 1, "b": 3}
    assert root.value["b"].lines == {"c": 4}
    assert root.value["b"].kind == "a table"


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is a duplicate key"),
        ("a: &x 1\nb: *x\n", 1, "anchors"),
        ("a: !!python/object/apply:os.system [id]\n", 1, "tag"),
        ("a: !!binary aGk=\n", 1, "tag"),
        ("a:\n  - [1\n", 3, "not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "the file has a second document"),
        ("? [a]\n: 1\n", 1, "a key must be a word"),
        ("a: \x07\n", 1, "not YAML"),
        ("[" * 40 + "]" * 40, 1, "nested too deeply"),
        ("- " * 40_000, 1, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, line: int, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Line {line} of 'shop.yaml': .*{told}"):
        parse(text, "shop.yaml")


def test_much_is_refused_before_it_is_read() -> None:
    with pytest.raises(ConfigError, match="longer than"):
        parse("a: " + "x" * FILE_BYTES_MAX, "f")
    with pytest.raises(ConfigError, match="too many items"):
        parse("[" + "1," * 60_000 + "1]", "f")
    with pytest.raises(ConfigError, match="empty"):
        parse("# nothing\n", "f")
    assert DEPTH_MAX < 20
    assert str(wrong("f", 3, "it is so.")) == "Line 3 of 'f': it is so."


def _description_or_sentence(text: str) -> None:
    try:
        described = describe(text, "f")
    except ConfigError as error:
        assert "'f'" in str(error)  # noqa: PT017 - both ends are fine
    else:
        assert described.name


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lambda b: b.decode("latin1"))))
def test_no_text_at_all_does_more_than_fail(text: str) -> None:
    _description_or_sentence(text)


_WORDS = st.sampled_from(
    [
        *("name", "targets", "probes", "invariants", "levers", "notes", "kind", "port", "on"),
        *("http", "tcp", "command", "redis", "sql", "file", "process", "prometheus", "holds"),
        *("path", "expect", "read", "says", "risk", "for", "run", "query", "x", "page", "-1", ""),
    ]
)
_TREES = st.recursive(
    st.one_of(_WORDS, st.integers(-5, 70_000), st.booleans(), st.none(), st.floats(width=16)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_WORDS, inner, max_size=4)
    ),
    max_leaves=25,
)


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(_WORDS, _TREES, max_size=6))
def test_no_tree_of_our_own_words_does_more_than_fail(tree: dict[str, object]) -> None:
    import yaml

    _description_or_sentence(yaml.safe_dump(tree))
