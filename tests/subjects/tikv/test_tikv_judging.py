"""What follows from what was read: of stores, of PDs, of the cluster, and for the invariants."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ConfigError
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    number_of,
    unknown,
)
from operator_sre.subjects.tikv.client import Answer
from operator_sre.subjects.tikv.cluster import (
    balance_readings,
    cluster_readings,
    hot_readings,
    region_readings,
)
from operator_sre.subjects.tikv.facts import Facts, Hot
from operator_sre.subjects.tikv.invariants import invariants_of
from operator_sre.subjects.tikv.kinds import (
    CLUSTER,
    PD,
    PROMETHEUS,
    STORE,
    address_of,
    addresses_of,
    discovered_target,
    host_of,
    shared_access,
    target_at,
    with_cluster,
)
from operator_sre.subjects.tikv.leader import (
    Leadership,
    PdReport,
    ask_leader,
    find_leader,
    scrape,
)
from operator_sre.subjects.tikv.metrics import StoreHistory, find_cut_off
from operator_sre.subjects.tikv.options import METRICS_FROM, Options, options_from
from operator_sre.subjects.tikv.parts import (
    compare_parts,
    find_differing,
    find_listed,
    find_needed,
    flag_readings,
    measure_skews,
    metrics_addresses,
    names_of,
    pd_readings,
    pds_readings,
    with_quorum,
)
from operator_sre.subjects.tikv.state import (
    Member,
    Members,
    Store,
    count_led,
)
from tests.contract.clock import NOON

FAILURES = """\
tikv_store_size_bytes{{type="used"}} 4.5e9
tikv_server_report_failure_msg_total{{type="unreachable",store_id="5"}} {count}
"""


def test_the_hottest_region_has_an_heir_that_is_up_and_leads_least() -> None:
    stores = [Store(4, "a"), Store(5, "b", leader_count=9), Store(6, "c", leader_count=2)]
    stores += [Store(7, "d", state="Down")]
    hot = Hot("write", 77, 4, 8e6, 0.9, 3, (4, 5, 6, 7))
    found = hot_readings(Facts(hot={"write": hot}), stores, {4: "s4", 6: "s6"}, Options())
    assert (found["hot"], found["hot_store"], found["hot_heir"]) == (True, "s4", "s6")
    assert hot_readings(Facts(), stores, {}, Options()) == {}
    calm = hot_readings(Facts(hot={"read": None}), stores, {}, Options())
    assert calm == {"hot": False}


def test_leaders_are_even_where_they_are_meant_to_be() -> None:
    stores = [Store(1, "a", leader_count=90), Store(2, "b", leader_count=30, leader_weight=0.5)]
    names = {1: "s1", 2: "s2", 3: "s3"}
    assert balance_readings(stores, names, frozenset(), Options())["leaders_uneven"] is False
    stores.append(Store(3, "c", leader_count=0))
    found = balance_readings(stores, names, frozenset(), Options())
    assert (found["leaders_uneven"], found["leader_least"]) == (True, "s3")
    assert balance_readings(stores, names, frozenset({3}), Options())["leaders_uneven"] is False
    assert balance_readings([], {}, frozenset(), Options()) == {}


def test_regions_are_led_by_stores_that_are_heard() -> None:
    stores = [Store(1, "a", leader_count=3), Store(2, "b", state="Down", leader_count=2)]
    assert count_led(stores) == 3
    found = region_readings(stores, Facts(), settled=True)
    assert found["regions_without_leader"] == 2
    assert "under_replicated" not in found
    whole = cluster_readings(stores, {1: "s1", 2: "s2"}, Facts(), Options(), NOON)
    assert (whole["stores_up"], whole["stores_silent"], whole["evicting"]) == (1, "s2", None)


def test_who_is_cut_off_is_the_one_that_all_others_complain_about() -> None:
    assert find_cut_off({2: frozenset({1}), 3: frozenset({1})}) == {1: {2, 3}}
    both = find_cut_off({2: frozenset({3}), 3: frozenset({2})})
    assert both == {2: {3}, 3: {2}}
    two = {1: frozenset({3, 4, 5}), 2: frozenset({3, 4, 5})}
    assert set(find_cut_off(two)) == {1, 2}
    assert find_cut_off({}) == {}
    shown = StoreHistory()
    stores = {"a": Store(1, "a"), "b": Store(5, "b")}
    for count in (3, 4):
        said = Answer(content=FAILURES.format(count=count).encode())
        found = shown.readings(stores, {"a": said, "b": said}, float(count))
    assert (found["a"]["cut_from"], found["b"]["cut_from_peers"]) == ("b", True)
    assert shown.readings(stores, {"a": Answer(error="no")}, 9.0)["a"]["error"] == "no"


def test_stores_are_known_by_address_then_by_host_and_whoever_left_comes_last() -> None:
    targets = [Target("one", STORE, "10.0.0.1", 20160), Target("tikv-2", STORE)]
    stores = [
        Store(3, "10.0.0.1:20160", state="Tombstone"),
        Store(7, "10.0.0.1:20160", "10.0.0.1:20180"),
        Store(8, "TiKV-2:20160", "tikv-2:20180"),
    ]
    assert names_of(stores, targets) == {7: "one", 8: "tikv-2"}
    assert metrics_addresses(targets[0], stores[1]) == ["10.0.0.1:20180"]
    here = Target("tikv-2", STORE, endpoints=("127.0.0.1:9",))
    assert metrics_addresses(here, stores[2]) == ["127.0.0.1:9", "tikv-2:20180"]


def test_addresses_names_and_the_cluster_as_a_target() -> None:
    six = Target(
        "pd-1", PD, "::1", 2379, endpoints=("b:1",), access=Access(tls=True, server_name="x")
    )
    assert addresses_of(six) == ["[::1]:2379", "b:1"]
    assert address_of("https://Pd-1:2379/x") == "pd-1:2379"
    assert address_of("http://[") == address_of("nothing") == ""
    assert host_of("[::1]:2379") == "::1"
    assert target_at([six], ["other"], ["b:1"]) == target_at([six], ["pd-1"], []) == "pd-1"
    assert target_at([six], [], ["c:1"]) == ""
    access = shared_access([six])
    assert access == Access(tls=True)
    found = discovered_target("store-4", STORE, "a:7", ["store-4"], access)
    assert (found.name, found.host, found.port) == ("store-4-2", "a", 7)
    both = with_cluster([six, Target(CLUSTER, STORE)], ["pd-1", "nobody"])
    assert both[-1] == Target("cluster-2", CLUSTER, depends_on=("pd-1",))
    assert with_cluster([Target("p", PROMETHEUS)]) == (Target("p", PROMETHEUS),)


def test_clocks_and_versions_are_compared_with_those_of_most() -> None:
    assert measure_skews({"a": 0.5, "b": 9.5, "c": 0.5}) == {"a": 0.0, "b": 9.0, "c": 0.0}
    # When it is ours that is wrong, all others agree.
    assert set(measure_skews({"a": -60.0, "b": -60.0}).values()) == {0.0}
    assert find_differing({"a": "1", "b": "1", "c": "2", "d": ""}) == {"c": "1"}
    assert find_differing({"a": "1", "b": "2"}) == {"a": None, "b": None}
    seen = [Seen("a", {"kind": STORE, "version": "1"}), Seen("b", {"kind": PD, "version": "2"})]
    assert not any(one.readings["version_differs"] for one in compare_parts(seen, {}, 3.0))
    assert compare_parts(seen, {"a": 99.0}, 3.0)[0].readings["clock_skewed"] is True
    assert with_quorum(seen, True)[1].readings["quorum"] is True


def test_pds_are_enough_when_more_than_half_answer() -> None:
    up = PdReport(Target("a", PD), Answer(), Member("b", 1))
    assert up.up
    readings = pd_readings(up.target, up, "b", Members((Member("a", 1, (), "8"),)))
    assert (readings["follows"], readings["leads"], readings["version"]) == ("b", False, "8")
    strange = PdReport(Target("c", PD), Answer(error="x", strange=True))
    assert "not from PD" in str(pd_readings(strange.target, strange, "b", None)["error"])
    assert pd_readings(strange.target, None, "b", None) == {}
    seen = [Seen("a", {"kind": PD, **readings}), Seen("c", {"kind": PD, "reachable": False})]
    found = pds_readings(seen, Leadership(), "b")
    assert (found["pds_up"], found["quorum"], found["has_leader"]) == (1, False, True)
    assert not Leadership().leads
    assert find_needed(seen) == {"c"}
    stores: dict[str, dict[str, Value]] = {
        "gone": {"state": "Down"},
        "lost": {"state": "Unheard", "reachable": False},
        "apart": {"state": "Up", "reachable": True, "cut_from_peers": True},
        "new": {"state": "Unheard", "reachable": True},
        "mute": {"state": "Up", "reachable": False},
        "up": {"state": "Up", "reachable": True},
    }
    told = [Seen(name, {"kind": STORE, **one}) for name, one in stores.items()]
    assert find_needed(told) == {"gone", "lost", "apart", "mute"}
    assert all(callable(one) for one in (find_leader, ask_leader, scrape))


def test_a_store_is_judged_by_its_limits() -> None:
    late = {"qps": 3.0, "p99_ms": 501.0, "append_log_p99_ms": 501.0, "disk_ratio": 0.91}
    found = flag_readings({**late, "evicting": True, "state": "Up", "log_bytes": 1}, Options())
    assert (found["late"], found["disk_slow"], found["disk_is_full"]) == (True, True, True)
    # It was emptied because its disk is slow; nobody has forgotten it.
    assert (found["eviction_left"], found["log_grown"]) == (False, False)
    assert flag_readings({"evicting": True, "state": "Up"}, Options())["eviction_left"] is True
    assert flag_readings({}, Options()) == {}


@pytest.mark.parametrize(
    ("state", "age_s", "reachable", "heard"),
    [
        ("Up", 9.0, True, True),
        ("Up", 9.0, None, True),
        ("Up", 1.0, False, True),
        # It may have fallen silent for both of us at once.
        ("Up", 9.0, False, None),
        ("Up", 21.0, True, False),
        ("Disconnected", 9.0, True, False),
        ("Unheard", 400.0, True, None),
        ("Up", None, True, True),
    ],
)
def test_who_is_heard_by_pd(
    state: str, age_s: float | None, reachable: bool | None, heard: bool | None
) -> None:
    readings = {"state": state, "heartbeat_age_s": age_s, "reachable": reachable}
    assert flag_readings(readings, Options()).get("heard") is heard


def test_a_store_that_does_not_show_how_long_requests_take_is_not_called_quick() -> None:
    quick: dict[str, Value] = {
        "kind": STORE,
        "known": True,
        "reachable": True,
        "qps": 0.0,
        "p99_ms": None,
    }
    for name in ("high_latency", "apply_lag"):
        one = next(each for each in invariants_of(Options()) if each.name == name)
        for readings, health in (
            (quick, Health.HEALTHY),
            ({**quick, "qps": None}, Health.UNKNOWN),
            ({key: quick[key] for key in ("kind", "known", "reachable")}, Health.UNKNOWN),
        ):
            look = Observation("x", NOON, (Seen("a", readings),))
            assert [found.health for found in one.check(look)] == [health]


def test_a_part_that_may_be_listed_with_another_address_is_not_called_removed() -> None:
    targets = [Target(name, kind) for name, kind in (("a", PD), ("b", PD), ("c", STORE))]
    known = Members((Member("a", 1), Member("b", 2)))
    assert find_listed(targets, known, [Store(1, "c:20160")]) == dict.fromkeys("abc", True)
    assert find_listed(targets, Members((Member("a", 1),)), [])["b"] is False
    elsewhere = Members((Member("a", 1), Member("pd-9", 2)))
    assert find_listed(targets, elsewhere, [Store(1, "store-9:20160")]) == {}
    assert find_listed(targets, None, None) == {}


def test_invariants_have_sentences_and_a_grace_that_can_be_scaled() -> None:
    all_ = invariants_of(Options())
    kinds = {one.name: one.kinds for one in all_ if isinstance(one, PartInvariant)}
    assert len(kinds) == len(all_)
    assert {name for name, of in kinds.items() if of == (CLUSTER,)} == {
        *("pd_no_leader", "under_replicated", "regions_without_leader", "leader_imbalance"),
        *("operator_stuck", "hot_region", "schedulers_idle", "ghost_member"),
    }
    assert {name for name, of in kinds.items() if of == (PROMETHEUS,)} == {"prometheus_down"}
    graces = {one.name: one.grace_s for one in all_}
    assert (graces["under_replicated"], graces["store_down"]) == (600.0, 0.0)
    scaled = {one.name: one.grace_s for one in invariants_of(Options(grace_ratio=0.01))}
    assert scaled["under_replicated"] == 6.0
    assert max(one.grace_s for one in invariants_of(Options(grace_ratio=99.0))) < 3600.0
    for one in all_:
        assert isinstance(one, PartInvariant)
        assert one.sentence.endswith(".")


def test_an_opinion_is_asked_for_the_kinds_it_is_about() -> None:
    def judge(seen: Seen) -> Opinion | None:
        number = number_of(seen, "n")
        return unknown("?") if number is None else broken("!") if number else WELL

    one = PartInvariant("x", "It holds.", Severity.WARNING, 0.0, (PD,), judge)
    seen = (
        Seen("a", {"kind": PD, "n": 0}),
        Seen("b", {"kind": PD, "n": 1}),
        Seen("c", {"kind": PD, "n": True}),
        Seen("d", {"kind": STORE, "n": 1}),
        Seen("e", {"kind": PD, "n": 0}, "it cannot be asked"),
    )
    told = {found.target: found.health for found in one.check(Observation("x", NOON, seen))}
    well, wrong, blind = Health.HEALTHY, Health.BROKEN, Health.UNKNOWN
    assert told == {"a": well, "b": wrong, "c": blind, "e": blind}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nonsense": 1}, "not an option of a tikv subject"),
        ({"p99_ms_max": -1}, "0 or more"),
        ({"p99_ms_max": float("nan")}, "0 or more"),
        ({"leader_spread_min": 1.5}, "whole number"),
        ({"discover": 1}, "true or false"),
        ({"metrics_from": "elsewhere"}, "'stores', 'prometheus'"),
        ({"store_unit": 7}, "must be a string"),
    ],
)
def test_options_that_make_no_sense_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options_from(given)
    assert words in str(caught.value)


def test_options_have_sane_values() -> None:
    chosen = options_from({"grace_ratio": 1, "metrics_from": METRICS_FROM[1], "discover": False})
    assert chosen == Options(metrics_from="prometheus", discover=False)


def test_every_invariant_with_its_grace_and_every_option_is_in_the_docs() -> None:
    told = (Path(__file__).parents[3] / "docs" / "subjects" / "tikv.md").read_text()
    rows = [line for line in told.splitlines() if line.startswith("| `")]
    for one in invariants_of(Options()):
        row = next(line for line in rows if line.startswith(f"| `{one.name}` |"))
        assert row.endswith(f"| {one.grace_s:g} s |"), row
    missing = [one.name for one in fields(Options) if f"`{one.name}`" not in told]
    assert missing == []
