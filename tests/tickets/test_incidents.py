"""Which violations belong together, and which of them is the root."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.health import Severity
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.tickets import find_unrelated, incidents_of
from tests.contract.samples import ticket, violation

Needs = dict[str, tuple[str, ...]]
SHOP: Needs = {"store": (), "node-1": ("store",), "node-2": ("store",), "web": ("node-1",)}

# Members that all need what they are together.
CLUSTER: Needs = {"cluster": (), "a": ("cluster",), "b": ("cluster",), "c": ("cluster",)}

# What is broken -> the incidents, each with its root first.
CASES: list[tuple[str, Needs, list[str], list[list[str]]]] = [
    ("nothing", SHOP, [], []),
    ("one", SHOP, ["node-1"], [["node-1"]]),
    ("a node and its store", SHOP, ["node-1", "store"], [["store", "node-1"]]),
    ("all", SHOP, ["web", "node-2", "node-1", "store"], [["store", "node-1", "node-2", "web"]]),
    ("two nodes of a healthy store", SHOP, ["node-1", "node-2"], [["node-1"], ["node-2"]]),
    ("through a healthy part", SHOP, ["web", "store"], [["store", "web"]]),
    ("a chain", {"a": ("b",), "b": ("c",), "c": ()}, ["a", "b", "c"], [["c", "b", "a"]]),
    (
        "two chains",
        {"a": ("b",), "b": (), "x": ("y",), "y": ()},
        ["a", "b", "x", "y"],
        [["b", "a"], ["y", "x"]],
    ),
    (
        "joined from both ends",
        {"a": ("c",), "b": ("d",), "z": ("c", "d"), "c": (), "d": ()},
        ["a", "b", "c", "d", "z"],
        [["c", "d", "a", "b", "z"]],
    ),
    ("all members", CLUSTER, ["a", "b", "c", "cluster"], [["cluster", "a", "b", "c"]]),
    ("two members of a cluster that works", CLUSTER, ["a", "b"], [["a"], ["b"]]),
    ("a cycle", {"a": ("b",), "b": ("a",)}, ["b", "a"], [["a", "b"]]),
    ("a cycle, half broken", {"a": ("b",), "b": ("a",)}, ["b"], [["b"]]),
    ("itself", {"a": ("a",)}, ["a"], [["a"]]),
    ("unknown to the subject", SHOP, ["ghost", "node-1"], [["ghost"], ["node-1"]]),
]


def _targets(needs: Needs) -> list[Target]:
    return [Target(name, "node", depends_on=depends) for name, depends in needs.items()]


@pytest.mark.parametrize(
    ("needs", "broken", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_incidents(needs: Needs, broken: list[str], expected: list[list[str]]) -> None:
    incidents = incidents_of([violation(name) for name in broken], _targets(needs))
    found = [[one.target for one in incident] for incident in incidents]
    assert sorted(found) == sorted(expected)


def test_of_two_roots_the_more_urgent_comes_first() -> None:
    mild = violation("a", severity=Severity.WARNING)
    bad = violation("b", severity=Severity.CRITICAL)
    needs: Needs = {"a": (), "b": (), "c": ("a", "b")}
    (incident,) = incidents_of([violation("c"), mild, bad], _targets(needs))
    assert [one.target for one in incident] == ["b", "a", "c"]


def test_several_breaks_of_one_target_are_one_incident() -> None:
    breaks = [violation("a", invariant) for invariant in ("x", "y")]
    (incident,) = incidents_of(breaks, _targets({"a": ()}))
    assert list(incident) == breaks


@pytest.mark.parametrize(
    ("about", "apart", "unrelated"),
    [
        ("a", {"b"}, ["b"]),
        ("a", {"b", "web"}, ["b"]),  # the page needs what the diagnosis is about
        ("web", {"a", "b"}, []),  # what it needs may be its cause
        ("a", set(), []),  # nothing shows that it fails by itself
        ("a", {"a"}, []),
        ("store", {"a", "b", "web"}, ["a", "b", "web"]),
        ("elsewhere", {"a", "b", "web", "store"}, []),  # a ticket keeps something
    ],
)
def test_what_a_diagnosis_does_not_explain(
    about: str, apart: set[str], unrelated: list[str]
) -> None:
    needs: Needs = {"a": (), "b": (), "web": ("a", "b"), "store": (), "elsewhere": ()}
    filed = tuple(violation(name) for name in ("a", "b", "web", "store"))
    found = find_unrelated(replace(ticket(), violations=filed), about, _targets(needs), apart)
    assert [each.target for each in found] == unrelated


_NAMES = st.sampled_from("abcdef")


@given(
    st.dictionaries(_NAMES, st.lists(_NAMES, max_size=3).map(tuple)),
    st.lists(_NAMES, unique=True),
)
def test_any_graph_is_parted_cleanly(needs: Needs, broken: list[str]) -> None:
    targets = _targets(needs)
    incidents = incidents_of([violation(name) for name in broken], targets)
    groups = [{one.target for one in incident} for incident in incidents]
    assert sorted(name for group in groups for name in group) == sorted(broken)
    for group in groups:
        for name in group:
            others = set(broken) & dependencies_of(name, targets)
            assert others <= group, "what depends on one another stays together"
    for group in groups:
        reached = {min(group)}
        for _ in group:
            reached |= {
                name
                for name in group
                if dependencies_of(name, targets) & reached
                or any(name in dependencies_of(other, targets) for other in reached)
            }
        assert reached == group, "nothing is together without a reason"
