"""What depends on what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.target import Process, Target, dependencies_of

CASES: list[tuple[str, dict[str, tuple[str, ...]], dict[str, set[str]]]] = [
    ("none", {"a": ()}, {"a": set(), "unknown": set()}),
    ("direct", {"a": ("b",), "b": ()}, {"a": {"b"}, "b": set()}),
    ("chain", {"a": ("b",), "b": ("c",), "c": ()}, {"a": {"b", "c"}, "b": {"c"}, "c": set()}),
    ("diamond", {"a": ("b", "c"), "b": ("d",), "c": ("d",)}, {"a": {"b", "c", "d"}}),
    ("itself", {"a": ("a",)}, {"a": set()}),
    ("cycle", {"a": ("b",), "b": ("a",)}, {"a": {"b"}, "b": {"a"}}),
    ("ring", {"a": ("b",), "b": ("c",), "c": ("a",)}, {"a": {"b", "c"}, "c": {"a", "b"}}),
    ("behind a ring", {"a": ("b",), "b": ("b", "c"), "c": ("b",)}, {"a": {"b", "c"}}),
    ("not there", {"a": ("ghost",)}, {"a": {"ghost"}}),
]


@pytest.mark.parametrize(("needs", "expected"), [case[1:] for case in CASES], ids=lambda _: "")
def test_dependencies_are_followed_to_their_end(
    needs: dict[str, tuple[str, ...]], expected: dict[str, set[str]]
) -> None:
    targets = [Target(name, "node", depends_on=depends) for name, depends in needs.items()]
    assert {name: dependencies_of(name, targets) for name in expected} == expected


_NAMES = st.sampled_from("abcdefg")


@given(st.dictionaries(_NAMES, st.lists(_NAMES, max_size=4), min_size=1), st.data())
def test_any_graph_ends_and_is_closed(needs: dict[str, list[str]], data: st.DataObject) -> None:
    targets = [Target(name, "n", depends_on=tuple(depends)) for name, depends in needs.items()]
    name = data.draw(st.sampled_from(sorted(needs)))
    found = dependencies_of(name, targets)
    assert name not in found
    assert set(needs[name]) - {name} <= found
    for other in found:
        assert dependencies_of(other, targets) - {name} <= found


def test_a_later_process_with_the_same_pid_is_another() -> None:
    assert Process(7, 1.0) != Process(7, 2.0)
