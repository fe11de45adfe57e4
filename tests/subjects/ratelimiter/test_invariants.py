"""What the invariants of a rate limiter say of what can really be seen."""

from __future__ import annotations

import pytest

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.kit.invariant import PartInvariant
from operator_sre.subjects.ratelimiter.invariants import (
    INVARIANTS,
    LOG_BYTES_MAX,
    invariants_with,
    most_of,
)
from tests.contract.clock import NOON

HEALTHY, UNKNOWN, BROKEN = Health
Readings = dict[str, Value]
UP: Readings = {
    "kind": "node",
    "reachable": True,
    "status": "up",
    "store_connected": True,
    "store_error": None,
    "degraded": False,
    "p99_check_ms": 3.0,
    "ghost_allowed": 0,
    "differs_default_limit": False,
    "differs_window_s": False,
    "differs_key_prefix": False,
    "differs_on_store_loss": False,
}
GONE: Readings = {
    "kind": "node",
    "reachable": False,
    "error": "127.0.0.1:1: connection refused",
}
STORE: Readings = {
    "kind": "store",
    "reachable": True,
    "role": "primary",
    "in_use": True,
    "refuses_writes": False,
    "memory_share": 0.1,
    "primaries": 1,
    "stores_unseen": 0,
    "connected_replicas": 1,
    "replicas_expected": 1,
    "drift": 0,
    "over_limit_keys": 0,
    "endless_keys": 0,
    "hot_key_share": 0.1,
    "ghost_allowed": 0,
    "limits_strange": 0,
    "differs_setting": "",
}
REPLICA: Readings = {
    "kind": "replica",
    "reachable": True,
    "role": "replica",
    "in_use": False,
    "replica_link": "up",
    "primaries": 1,
    "stores_unseen": 0,
    "memory_share": 0.1,
    "differs_setting": "",
}
SENTINEL: Readings = {
    "kind": "sentinel",
    "reachable": True,
    "primaries_watched": 1,
    "quorum_error": "",
}
LOST: Readings = {**UP, "store_connected": False, "store_error": "connection refused"}

# What was seen -> all that is not healthy about it, by invariant.
CASES: list[tuple[str, Seen, dict[str, Health]]] = [
    ("a node that is well", Seen("n", UP), {}),
    ("a store that is well", Seen("s", STORE), {}),
    ("a replica that is well", Seen("s", REPLICA), {}),
    ("a sentinel that is well", Seen("s", SENTINEL), {}),
    ("a node without its store", Seen("n", {**LOST, "degraded": True}),
     {"redis_disconnected": BROKEN}),
    ("a node whose store refuses", Seen("n", {**UP, "degraded": True, "store_error": "OOM"}),
     {"store_refuses_writes": BROKEN}),
    ("a drained node", Seen("n", {**UP, "status": "draining"}), {"node_draining": BROKEN}),
    ("a node that says it is lost", Seen("n", {**UP, "status": "lost"}), {"node_down": BROKEN}),
    ("a slow node", Seen("n", {**UP, "p99_check_ms": 100.1}), {"high_latency": BROKEN}),
    ("a node that was slow once", Seen("n", {**UP, "p99_check_ms": 900.0, "p99_sustained_ms": 9.0}),
     {}),
    ("a node that stays slow", Seen("n", {**UP, "p99_sustained_ms": 101.0}),
     {"high_latency": BROKEN}),
    ("a node that is just quick enough", Seen("n", {**UP, "p99_check_ms": 100.0}), {}),
    ("a node that nobody asks", Seen("n", {**UP, "p99_check_ms": None}), {}),
    ("another limit", Seen("n", {**UP, "differs_default_limit": True}), {"limits_differ": BROKEN}),
    ("another window", Seen("n", {**UP, "differs_window_s": True}), {"limits_differ": BROKEN}),
    ("another prefix", Seen("n", {**UP, "differs_key_prefix": True}),
     {"configuration_drift": BROKEN}),
    ("ghosts of a node", Seen("n", {**UP, "ghost_allowed": 1}), {"ghost_allowing": BROKEN}),
    ("a long log", Seen("n", {**UP, "log_bytes": 25 << 20}), {"log_size": BROKEN}),
    ("drift of five", Seen("s", {**STORE, "drift": 5}), {}),
    ("drift of six", Seen("s", {**STORE, "drift": 6}), {"counter_drift": BROKEN}),
    ("ghosts of the store", Seen("s", {**STORE, "ghost_allowed": 2}), {"ghost_allowing": BROKEN}),
    ("over its limit", Seen("s", {**STORE, "over_limit_keys": 1}), {"over_limit": BROKEN}),
    ("endless", Seen("s", {**STORE, "endless_keys": 1}), {"keys_without_ttl": BROKEN}),
    ("hot", Seen("s", {**STORE, "hot_key_share": 0.51}), {"hot_key": BROKEN}),
    ("half", Seen("s", {**STORE, "hot_key_share": 0.5}), {}),
    ("refusing", Seen("s", {**STORE, "refuses_writes": True}), {"store_refuses_writes": BROKEN}),
    ("nearly full", Seen("s", {**STORE, "memory_share": 0.95}), {"store_memory": BROKEN}),
    ("an odd limit", Seen("s", {**STORE, "limits_strange": 1}), {"configuration_drift": BROKEN}),
    ("an odd setting", Seen("s", {**STORE, "differs_setting": "maxmemory"}),
     {"configuration_drift": BROKEN}),
    ("alone", Seen("s", {**STORE, "connected_replicas": 0}), {"replication": BROKEN}),
    ("a replica without its link", Seen("s", {**REPLICA, "replica_link": "down"}),
     {"replication": BROKEN}),
    ("a second primary", Seen("s", {**STORE, "primaries": 2}), {"primary_count": BROKEN}),
    ("no primary", Seen("s", {**REPLICA, "primaries": 0}), {"primary_count": BROKEN}),
    ("no primary, and one that is not seen",
     Seen("s", {**REPLICA, "primaries": 0, "stores_unseen": 1}), {"primary_count": UNKNOWN}),
    ("a sentinel of nobody", Seen("s", {**SENTINEL, "primaries_watched": 0}),
     {"sentinel_view": BROKEN}),
    ("a sentinel alone", Seen("s", {**SENTINEL, "quorum_error": "NOQUORUM"}),
     {"sentinel_view": BROKEN}),
    ("a sentinel without a replica", Seen("s", {**SENTINEL, "replicas_known": 0}),
     {"sentinel_view": BROKEN}),
    ("a sentinel that is gone", Seen("s", {**GONE, "kind": "sentinel"}),
     {"sentinel_down": BROKEN, "sentinel_view": UNKNOWN}),
]  # fmt: skip


def _says(seen: Seen) -> dict[str, Health]:
    found: dict[str, Health] = {}
    for invariant in INVARIANTS:
        for finding in invariant.check(Observation("shop", NOON, (seen,))):
            assert (finding.target, finding.invariant) == (seen.target, invariant.name)
            assert finding.invariant not in found
            found[finding.invariant] = finding.health
    return found


@pytest.mark.parametrize(
    ("seen", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_findings(seen: Seen, expected: dict[str, Health]) -> None:
    said = _says(seen)
    assert said, "somebody has to speak of it"
    assert {name: health for name, health in said.items() if health is not HEALTHY} == expected


@pytest.mark.parametrize("kind", ["node", "store", "replica", "sentinel"])
def test_of_what_is_gone_or_makes_no_sense_nothing_is_healthy(kind: str) -> None:
    down = {"node": "node_down", "sentinel": "sentinel_down"}.get(kind, "redis_disconnected")
    gone = _says(Seen("x", {**GONE, "kind": kind}))
    assert gone.pop(down) is BROKEN
    assert set(gone.values()) == {UNKNOWN}
    assert set(_says(Seen("x", {"kind": kind}, "not JSON")).values()) == {UNKNOWN}
    assert set(_says(Seen("x", {"kind": kind})).values()) == {UNKNOWN}


@pytest.mark.parametrize(
    ("name", "seen", "words"),
    [
        ("node_down", Seen("n", GONE), "connection refused"),
        ("redis_disconnected", Seen("n", LOST), "cannot reach the store: connection refused"),
        ("redis_disconnected", Seen("n", {**LOST, "store_error": None}), "no reason given"),
        ("node_down", Seen("n", {}, "not JSON"), "not JSON"),
        ("high_latency", Seen("n", {**UP, "p99_check_ms": 250.5}), "250.5 ms"),
        (
            "counter_drift",
            Seen("s", {**STORE, "drift": 9, "drift_key": "a", "drift_api": 1, "drift_stored": 10}),
            "key 'a': nodes counted 1, the store holds 10",
        ),
        (
            "ghost_allowing",
            Seen("n", {**UP, "ghost_allowed": 3, "ghost_key": "a", "ghost_limit": 7}),
            "3 requests of 'a' allowed beyond its limit of 7",
        ),
        ("node_draining", Seen("n", {**UP, "status": "draining"}), "no reason given"),
    ],
)
def test_a_finding_says_why(name: str, seen: Seen, words: str) -> None:
    (invariant,) = (one for one in INVARIANTS if one.name == name)
    (finding,) = invariant.check(Observation("shop", NOON, (seen,)))
    assert words in finding.detail


def test_the_figures_of_the_requirements() -> None:
    figures = {one.name: (one.severity, one.grace_s) for one in INVARIANTS}
    critical, warning = Severity.CRITICAL, Severity.WARNING
    assert {name: figures[name] for name in list(figures)[:6]} == {
        "node_down": (critical, 0),
        "redis_disconnected": (critical, 0),
        "high_latency": (warning, 60),
        "counter_drift": (warning, 30),
        "ghost_allowing": (warning, 0),
        "over_limit": (warning, 0),
    }


def test_every_invariant_is_a_sentence_and_thresholds_can_be_chosen() -> None:
    checks: tuple[PartInvariant, ...] = INVARIANTS
    sentences = {one.sentence for one in checks}
    assert len(sentences) == len(INVARIANTS)
    slow = Observation("shop", NOON, (Seen("n", {**UP, "p99_check_ms": 150.0}),))
    (latency,) = (one for one in invariants_with({"p99_ms_max": 200}) if one.name == "high_latency")
    assert [finding.health for finding in latency.check(slow)] == [HEALTHY]
    (latency,) = (one for one in invariants_with({"p99_ms_max": "x"}) if one.name == "high_latency")
    assert [finding.health for finding in latency.check(slow)] == [BROKEN]


def test_a_threshold_is_that_of_the_options_where_it_is_a_number() -> None:
    for options, wanted in (
        ({}, LOG_BYTES_MAX),
        ({"log_bytes_max": 7}, 7),
        ({"log_bytes_max": "7"}, LOG_BYTES_MAX),
    ):
        assert most_of(options, "log_bytes_max", LOG_BYTES_MAX) == wanted
