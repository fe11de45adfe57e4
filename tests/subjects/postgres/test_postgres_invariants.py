"""What invariants of PostgreSQL say of readings: broken, healthy, and unknown where nothing is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError
from operator_protocols.kit.invariant import WELL, broken, unknown
from operator_protocols.kit.units import format_bytes
from operator_protocols.ports import Invariant
from operator_sre.models.reasoner.belief import Symptoms, first_belief
from operator_sre.subjects.postgres.invariants import (
    CLIENT_DOWN,
    CLIENT_PAUSED,
    OTHER_OPTIONS,
    SYMPTOMS,
    Measure,
    NoPrimary,
    ServerRule,
    Thresholds,
    TwoPrimaries,
    amount,
    invariants_of,
    is_client,
    symptoms_of,
    thresholds_of,
    unseen,
)
from operator_sre.subjects.postgres.tools import KNOWLEDGE
from tests.contract.clock import NOON

GOOD: dict[str, Value] = {
    "kind": "server",
    "up": True,
    "exhausted": False,
    "role": "primary",
    "latency_ms": 1.0,
    "connections": 3,
    "connections_max": 34,
    "connections_ratio": 0.09,
    "transaction_s": 0.0,
    "idle_transaction_s": 0.0,
    "locks_waiting": 0,
    "lock_wait_s": 0.0,
    "slot_retained_bytes": 0,
    "disk_watched": True,
    "disk_free_ratio": 0.9,
    "dead_tuples": 0,
    "dead_tuples_ratio": 0.0,
    "pending_restart": 0,
    "settings_unloaded": 0,
    "configuration_errors": 0,
    "scans_counted": True,
    "scanned_rows_per_s": 0.0,
    "log_bytes": 10,
}
REPLICA: dict[str, Value] = {
    **GOOD,
    "role": "replica",
    "attached": True,
    "lag_bytes": 0,
    "lag_s": 0.0,
}


def _of(name: str) -> Invariant:
    return next(one for one in invariants_of(Thresholds()) if one.name == name)


def _findings(invariant: Invariant, *seen: Seen) -> dict[str, Finding]:
    found: Iterable[Finding] = invariant.check(Observation("pg", NOON, seen))
    return {one.target: one for one in found}


def _health(name: str, readings: dict[str, Value], problem: str = "") -> Health | None:
    found = _findings(_of(name), Seen("a", readings, problem))
    return found["a"].health if found else None


# invariant, what is read when it is broken, what is just still healthy
CASES: list[tuple[str, dict[str, Value], dict[str, Value]]] = [
    ("server_down", {"up": False, "error": "refused"}, {"up": True}),
    ("disk_space", {"disk_free_ratio": 0.0999}, {"disk_free_ratio": 0.1}),
    ("connections_near_limit", {"connections_ratio": 0.91}, {"connections_ratio": 0.9}),
    ("connections_near_limit", {"exhausted": True}, {"exhausted": False}),
    ("replica_detached", {"attached": False}, {"attached": True}),
    ("replication_lag", {"lag_s": 5.1, "lag_bytes": 1}, {"lag_s": 5.0, "lag_bytes": 1}),
    ("replication_lag", {"lag_bytes": 257 << 20}, {"lag_bytes": 256 << 20}),
    ("slot_retains_wal", {"slot_retained_bytes": 65 << 20}, {"slot_retained_bytes": 64 << 20}),
    ("slot_retains_wal", {"slot_state": "lost"}, {"slot_state": "reserved"}),
    ("locks_waiting", {"lock_wait_s": 5.1}, {"lock_wait_s": 5.0}),
    ("idle_in_transaction", {"idle_transaction_s": 5.1}, {"idle_transaction_s": 5.0}),
    ("long_transaction", {"transaction_s": 300.1}, {"transaction_s": 300.0}),
    ("high_latency", {"latency_ms": 250.1}, {"latency_ms": 250.0}),
    ("missing_index", {"scanned_rows_per_s": 50_001}, {"scanned_rows_per_s": 50_000}),
    (
        "dead_tuples",
        {"dead_tuples": 10_000, "dead_tuples_ratio": 0.51},
        {"dead_tuples": 9_999, "dead_tuples_ratio": 0.99},
    ),
    ("bad_configuration", {"configuration_errors": 1}, {"configuration_errors": 0}),
    ("settings_not_loaded", {"settings_unloaded": 1}, {"settings_unloaded": 0}),
    ("settings_pending_restart", {"pending_restart": 1}, {"pending_restart": 0}),
    ("log_size", {"log_bytes": (24 << 20) + 1}, {"log_bytes": 24 << 20}),
]


@pytest.mark.parametrize(("name", "bad", "good"), CASES, ids=[one[0] for one in CASES])
def test_it_breaks_just_beyond_its_threshold(
    name: str, bad: dict[str, Value], good: dict[str, Value]
) -> None:
    assert _health(name, {**REPLICA, **bad}) is Health.BROKEN
    assert _health(name, {**REPLICA, **good}) is Health.HEALTHY
    (broken_one,) = _findings(_of(name), Seen("a", {**REPLICA, **bad})).values()
    assert broken_one.detail


@pytest.mark.parametrize("name", sorted({one[0] for one in CASES}))
def test_nothing_is_known_of_what_was_not_read(name: str) -> None:
    needed = {key for case in CASES if case[0] == name for key in (*case[1], *case[2])}
    needed |= {"role", "up", "connections_ratio", "exhausted", "lag_bytes", "slot_retained_bytes"}
    needed |= {"dead_tuples_ratio"}
    without = {key: value for key, value in REPLICA.items() if key not in needed}
    expected = None if name == "log_size" else Health.UNKNOWN
    assert _health(name, without) is expected
    assert _health(name, {}) is Health.UNKNOWN
    if name not in ("disk_space", "log_size"):  # these are seen from outside
        assert (
            _health(name, {**without, "kind": "server"}, "it answered nonsense") is Health.UNKNOWN
        )


def test_a_server_that_is_down_says_nothing_of_itself_but_that() -> None:
    down: dict[str, Value] = {"kind": "server", "up": False, "error": "refused"}
    told = {
        one.name: _findings(one, Seen("a", down)).get("a") for one in invariants_of(Thresholds())
    }
    healths = {name: one.health for name, one in told.items() if one is not None}
    assert healths.pop("server_down") is Health.BROKEN
    assert set(healths.values()) == {Health.UNKNOWN}


def test_only_a_replica_can_be_detached_or_behind() -> None:
    for name in ("replica_detached", "replication_lag"):
        assert _health(name, GOOD) is None
        assert _health(name, REPLICA) is Health.HEALTHY


def test_a_disk_of_another_machine_and_a_first_count_are_not_spoken_of() -> None:
    elsewhere = {key: one for key, one in GOOD.items() if not key.startswith("disk")}
    assert _health("disk_space", elsewhere) is None
    assert _health("disk_space", {**elsewhere, "disk_watched": True}) is Health.UNKNOWN
    assert _health("missing_index", {**GOOD, "scans_counted": False}) is None


def test_a_forbidden_view_is_named() -> None:
    readings = {key: one for key, one in GOOD.items() if key != "configuration_errors"}
    readings["blind_files"] = "permission denied for view pg_file_settings"
    (finding,) = _findings(_of("bad_configuration"), Seen("a", readings)).values()
    assert finding.health is Health.UNKNOWN
    assert "pg_file_settings" in finding.detail


def test_there_is_one_primary() -> None:
    both = (Seen("a", GOOD), Seen("b", REPLICA))
    for invariant in (NoPrimary(), TwoPrimaries()):
        found = _findings(invariant, *both)
        assert {one.health for one in found.values()} == {Health.HEALTHY}
        assert set(found) == {"a", "b"}


def test_no_primary_is_only_said_when_everybody_was_asked() -> None:
    gone = Seen("a", {"kind": "server", "up": False})
    full = Seen("a", {"kind": "server", "up": True, "exhausted": True})
    denied = Seen("a", {"kind": "server"}, "it does not let us in")
    replica = Seen("b", REPLICA)
    assert _findings(NoPrimary(), gone, replica)["b"].health is Health.BROKEN
    for hidden in (full, denied):
        found = _findings(NoPrimary(), hidden, replica)
        assert {one.health for one in found.values()} == {Health.UNKNOWN}
    client = Seen("c", {"kind": "client", "running": True})
    assert _findings(NoPrimary(), gone, replica, client)["b"].health is Health.BROKEN


def test_two_primaries_are_both_broken() -> None:
    found = _findings(TwoPrimaries(), Seen("a", GOOD), Seen("b", GOOD), Seen("c", REPLICA))
    assert {name: one.health for name, one in found.items()} == {
        "a": Health.BROKEN,
        "b": Health.BROKEN,
        "c": Health.HEALTHY,
    }


def test_clients_are_no_servers() -> None:
    runs = Seen("c", {"kind": "client", "running": True})
    dead = Seen("d", {"kind": "client", "running": False})
    hidden = Seen("e", {"kind": "client"}, "it has no process")
    found = _findings(CLIENT_DOWN, runs, dead, hidden, Seen("a", GOOD))
    assert [found[name].health for name in "cde"] == [
        Health.HEALTHY,
        Health.BROKEN,
        Health.UNKNOWN,
    ]
    assert "a" not in found
    paused = replace(runs, readings={**runs.readings, "paused": True})
    stopped = _findings(CLIENT_PAUSED, paused, dead, Seen("a", GOOD))
    assert (stopped["c"].health, stopped["d"].health) == (Health.BROKEN, Health.UNKNOWN)
    assert "a" not in stopped
    assert _findings(CLIENT_PAUSED, runs)["c"].health is Health.HEALTHY
    for invariant in invariants_of(Thresholds()):
        if isinstance(invariant, ServerRule):
            assert _findings(invariant, runs, dead, hidden) == {}


def test_thresholds_are_options_and_invariants_can_be_ignored() -> None:
    limits = thresholds_of({"lag_s_max": 60, "user": "me", "ignore": ["dead_tuples"]})
    assert limits.lag_s_max == 60.0
    names = {one.name for one in invariants_of(limits, ignored=["dead_tuples"])}
    assert "dead_tuples" not in names
    assert len(names) == len(invariants_of(Thresholds())) - 1
    lag = next(one for one in invariants_of(limits) if one.name == "replication_lag")
    late = Seen("b", {**REPLICA, "lag_s": 59.0, "lag_bytes": 5})
    assert _findings(lag, late)["b"].health is Health.HEALTHY


@pytest.mark.parametrize(
    "options",
    [{"lag_s": 1}, {"lag_s_max": "1"}, {"lag_s_max": True}, {"lag_s_max": -1}, {"ignore": "x"}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        thresholds_of(options)
    assert "ignore" in OTHER_OPTIONS


def test_symptoms_are_there_or_not_or_not_to_be_told() -> None:
    well = symptoms_of(GOOD, Thresholds())
    assert set(SYMPTOMS) == set(well)
    assert not any(well.values())
    assert symptoms_of({}, Thresholds()) == {}
    ill = symptoms_of({"lock_wait_s": 6.0, "disk_free_ratio": 0.05}, Thresholds())
    assert ill == {"locks_block": True, "disk_short": True}
    held = {"hoarder_connections": 18, "connections_max": 34}
    assert symptoms_of(held, Thresholds()) == {"connections_hoarded": True}


def test_a_cause_shows_only_what_a_look_reads() -> None:
    known = {*SYMPTOMS, *GOOD, *REPLICA, "connections_hoarded", "replay_paused", "replay_blocked"}
    known |= {"another_writes", "heard", "memory_short"}
    known |= {"client_errors_kind", "follows_upstream", "read_only_default"}
    assert KNOWLEDGE.causes
    for cause in KNOWLEDGE.causes:
        assert set(cause.shows) <= known, cause.name
        assert cause.shows


@pytest.mark.parametrize(
    "readings",
    [
        {"process": "dead", "port": "refused", "log": "no_space", "disk": "full"},
        {"process": "dead", "port": "refused", "log": "quiet", "disk": "full"},
        {"process": "dead", "port": "refused", "log": "no_space"},
        {"process": "alive", "port": "closed", "log": "errors", "disk": "full"},
    ],
)
def test_a_server_that_a_full_disk_ended_is_not_just_restarted(readings: dict[str, str]) -> None:
    up = readings["process"] == "alive"
    broken_names = frozenset({"disk_space"} if up else {"disk_space", "server_down"})
    shown = {"replica": {"up": up, "disk_short": True}}
    symptoms = Symptoms({"replica": broken_names}, shown)
    belief = first_belief(["replica"], [Target("replica", "server")], KNOWLEDGE.causes, symptoms)
    for probe, outcome in readings.items():
        seen = probe, "replica", outcome
        belief = belief.after(*seen).favour_reason(*seen)
    leader, probability = belief.rank()[0]
    assert leader.cause.name == "disk_full"
    assert probability >= 0.5


def test_how_readings_become_judgements() -> None:
    seen = Seen("a", {"x": 2, "blind_part": "not allowed", "error": "refused"})
    assert amount(seen, "x") == 2
    assert amount(seen, "y") is None
    assert amount(Seen("a", {"x": 2}, "a problem"), "x") is None
    measure = Measure("", "x", "part", "", "{value}")
    assert measure(seen, Thresholds()) == broken("2")
    assert replace(measure, reading="y")(seen, Thresholds()) == unknown("not allowed")
    assert unseen(seen) == unknown("refused")
    (found,) = _findings(CLIENT_DOWN, Seen("c", {"kind": "client", "running": True})).values()
    assert (found.health, found.detail) == (WELL.health, WELL.detail)
    assert not is_client(seen)
    assert format_bytes(5 << 20) == "5 MB"
