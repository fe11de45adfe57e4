"""What the invariants of a rate limiter say of what can really be seen."""

from __future__ import annotations

import pytest

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.ports import Invariant
from operator_sre.subjects.ratelimiter.invariants import (
    INVARIANTS,
    NodeDown,
    RedisDisconnected,
)
from tests.contract.clock import NOON

HEALTHY, UNKNOWN, BROKEN = Health
UP: dict[str, Value] = {
    "kind": "node",
    "reachable": True,
    "status": "up",
    "store_connected": True,
    "store_error": None,
}
GONE: dict[str, Value] = {
    "kind": "node",
    "reachable": False,
    "error": "127.0.0.1:1: connection refused",
}
STORE: dict[str, Value] = {"kind": "store", "reachable": True}
LOST: dict[str, Value] = {**UP, "store_connected": False, "store_error": "connection refused"}

# What was seen -> what node_down and redis_disconnected say of it; None: they do not speak of it.
CASES: list[tuple[str, Seen, Health | None, Health]] = [
    ("a node that is well", Seen("n", UP), HEALTHY, HEALTHY),
    ("a node that does not answer", Seen("n", GONE), BROKEN, UNKNOWN),
    ("a node without its store", Seen("n", LOST), HEALTHY, BROKEN),
    ("a node on its way out", Seen("n", {**UP, "status": "draining"}), BROKEN, HEALTHY),
    ("a node that answered nonsense", Seen("n", {"kind": "node"}, "not JSON"), UNKNOWN, UNKNOWN),
    ("something that was not looked at", Seen("n", {}, "not looked at"), UNKNOWN, UNKNOWN),
    ("a node of which nothing is known", Seen("n", {"kind": "node"}), UNKNOWN, UNKNOWN),
    ("a store that is well", Seen("s", STORE), None, HEALTHY),
    ("a store that is gone", Seen("s", {**GONE, "kind": "store"}), None, BROKEN),
    ("a store that answered nonsense", Seen("s", {"kind": "store"}, "b'?'"), None, UNKNOWN),
]


def _says(invariant: Invariant, seen: Seen) -> list[Health]:
    findings = list(invariant.check(Observation("shop", NOON, (seen,))))
    assert all(finding.target == seen.target for finding in findings)
    assert all(finding.invariant == invariant.name for finding in findings)
    return [finding.health for finding in findings]


@pytest.mark.parametrize(
    ("seen", "node_down", "redis_disconnected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_findings(seen: Seen, node_down: Health | None, redis_disconnected: Health) -> None:
    assert _says(NodeDown(), seen) == ([] if node_down is None else [node_down])
    assert _says(RedisDisconnected(), seen) == [redis_disconnected]


@pytest.mark.parametrize(
    ("invariant", "seen", "words"),
    [
        (NodeDown(), Seen("n", GONE), "connection refused"),
        (NodeDown(), Seen("n", {**UP, "status": "draining"}), "'draining'"),
        (RedisDisconnected(), Seen("n", LOST), "cannot reach the store: connection refused"),
        (RedisDisconnected(), Seen("n", {**LOST, "store_error": None}), "no reason given"),
        (NodeDown(), Seen("n", {}, "not JSON"), "not JSON"),
    ],
)
def test_a_finding_says_why(invariant: Invariant, seen: Seen, words: str) -> None:
    (finding,) = invariant.check(Observation("shop", NOON, (seen,)))
    assert words in finding.detail


def test_every_target_is_spoken_of_for_itself() -> None:
    seen = (Seen("a", UP), Seen("b", GONE), Seen("s", STORE))
    findings = [
        (finding.target, finding.health)
        for finding in NodeDown().check(Observation("shop", NOON, seen))
    ]
    assert findings == [("a", HEALTHY), ("b", BROKEN)]


def test_both_invariants_are_urgent_and_have_names_of_their_own() -> None:
    assert [invariant.name for invariant in INVARIANTS] == ["node_down", "redis_disconnected"]
    assert {invariant.severity for invariant in INVARIANTS} == {Severity.CRITICAL}
