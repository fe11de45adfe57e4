"""What PD, stores and their logs say, read as values; and what is not said as it should be."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from operator_protocols.domain.target import Target
from operator_protocols.kit.prometheus import (
    Buckets,
    Sample,
    blocks_of,
    buckets_of,
    quantile_of,
    samples_of,
    since,
)
from operator_sre.subjects.tikv.client import Answer, Reading
from operator_sre.subjects.tikv.cluster import (
    operator_readings,
)
from operator_sre.subjects.tikv.facts import (
    CHECKS,
    PROMETHEUS_UP,
    Facts,
    Question,
    Screen,
    Turns,
    choose_questions,
    hottest_from,
    screen_from,
)
from operator_sre.subjects.tikv.kinds import (
    PD,
)
from operator_sre.subjects.tikv.logs import LogLine, LogTail, line_from, local_readings
from operator_sre.subjects.tikv.metrics import (
    GRPC,
    NOT_ASKED_OF_USERS,
    Pace,
    Scraped,
    StoreMetrics,
    readings_at,
    scrape_path,
    scraped_from,
    store_metrics_from,
)
from operator_sre.subjects.tikv.parts import (
    store_readings,
)
from operator_sre.subjects.tikv.state import (
    EVICT_LEADER,
    Member,
    Members,
    Operator,
    Store,
    bytes_from,
    count_from,
    evicting_from,
    leader_from,
    members_from,
    operators_from,
    regions_from,
    schedulers_from,
    stores_from,
    time_from,
    whole_from,
)
from tests.contract.clock import NOON
from tests.measuring import GROWTH_MAX, growth

NONSENSE: list[Any] = [None, 7, "x", [], [1], {}, {"stores": 1}, {"members": {}}, [{"a": 1}]]


@pytest.mark.parametrize("body", NONSENSE)
def test_what_makes_no_sense_is_nothing_and_never_an_error(body: Any) -> None:
    assert not stores_from(body)
    assert members_from(body) is None
    assert not operators_from(body) or body == ["x"]
    assert not schedulers_from(body)
    assert evicting_from(body) is None
    assert leader_from(body) is None
    assert hottest_from(body, "write") is None
    assert scraped_from(body) is None
    assert time_from(body) is None
    assert bytes_from(body) in (0, 7)
    assert whole_from(body) in (0, 7)


def test_stores_are_read_as_pd_lists_them() -> None:
    body = {
        "count": 1,
        "stores": [
            {
                "store": {
                    "id": 4,
                    "address": "tikv-1:20160",
                    "status_address": "tikv-1:20180",
                    "version": "v8.1.0",
                    "state_name": "Disconnected",
                    "labels": [{"key": "zone", "value": "a"}, {"key": 1}],
                },
                "status": {
                    "capacity": "1.5TiB",
                    "available": "512GiB",
                    "leader_count": 7,
                    "leader_weight": 0.5,
                    "region_count": 21,
                    "is_busy": True,
                    "slow_score": 3,
                    "start_ts": "2026-01-02T03:04:05+08:00",
                    "last_heartbeat_ts": "2026-01-02T03:04:05.123456789+08:00",
                },
            },
            {"store": {"address": "without an id"}},
        ],
    }
    (store,) = stores_from(body) or ()
    assert (store.id, store.version, store.labels) == (4, "8.1.0", {"zone": "a"})
    assert (store.capacity_bytes, store.available_bytes) == (3 << 39, 1 << 39)
    assert (store.silent, store.planned, store.leads, store.busy) == (True, False, True, True)
    assert store.heartbeat == datetime(2026, 1, 1, 19, 4, 5, 123456, tzinfo=UTC)
    readings = store_readings(store, datetime(2026, 1, 1, 19, 4, 15, tzinfo=UTC), frozenset({4}))
    assert (readings["heartbeat_age_s"], readings["evicting"]) == (9.9, True)
    assert readings["free_ratio"] == 0.3333
    assert Store(1, "a", state="Tombstone").planned
    assert time_from("1970-01-01T00:00:00Z") is None
    assert not Store(1, "a", labels={"engine": "tiflash"}).leads


@pytest.mark.parametrize(
    ("text", "size"),
    [("99.99GiB", 107363445800), ("0B", 0), ("12KiB", 12288), ("7", 7), ("9" * 30, 0), ("GiB", 0)],
)
def test_sizes_are_read_with_their_unit(text: str, size: int) -> None:
    assert bytes_from(text) == pytest.approx(size, rel=1e-4)


def test_operators_are_sentences_with_two_times() -> None:
    text = (
        "admin-move-peer {mv peer: store [4] to [7]} (kind:admin,region, region:8(5, 3),"
        " createAt:2026-03-04 13:00:00.123456 +0100 CET m=+1.5, startAt:0001-01-01 00:00:00 +0000"
        " UTC, currentStep:0, size:96, steps:[0:{add learner peer 9 on store 7}], timeout:[10m0s])"
    )
    (one,) = operators_from([text, 5]) or ()
    assert (one.region, one.desc, one.kind) == (8, "admin-move-peer", "admin,region")
    assert one.brief == "mv peer: store [4] to [7]"
    assert (one.created, one.started) == (NOON, None)
    assert one.age_s(NOON + timedelta(seconds=700)) == 700.0
    facts = Facts(operators=(one,))
    readings = operator_readings(facts, NOON + timedelta(seconds=700), 600.0)
    assert (readings["operator_is_stuck"], readings["operator_region"]) == (True, 8)
    assert operator_readings(facts, NOON, 600.0)["operator_is_stuck"] is False
    assert operator_readings(Facts(), NOON, 600.0) == {}
    assert Operator(0, "", "", "", None, None, "?").age_s(NOON) is None
    assert operators_from(None) == ()


def test_members_and_leaders_have_addresses() -> None:
    pd = {"name": "pd-1", "member_id": 3, "client_urls": ["http://[::1]:2379", "http://x:y"]}
    found = members_from({"members": [pd, 5], "leader": pd, "etcd_leader": None})
    assert found == Members((Member("pd-1", 3, ("http://[::1]:2379", "http://x:y")),), "pd-1", "")
    assert found.members[0].addresses == ["[::1]:2379"]


def test_the_beginning_of_a_list_tells_its_length() -> None:
    whole = {"count": 3, "regions": [{"id": n, "start_key": ""} for n in (5, 6, 7)]}
    head = json.dumps(whole).encode()[:75]
    assert (count_from(head), regions_from(head)) == (3, (5, 6))
    assert count_from(b'{"regions": []}') is None
    assert count_from(b"") is None


METRICS = b"""\
# HELP tikv_grpc_msg_duration_seconds How long.
# TYPE tikv_grpc_msg_duration_seconds histogram
tikv_grpc_msg_duration_seconds_bucket{type="kv_get",le="0.1"} 90
tikv_grpc_msg_duration_seconds_bucket{type="kv_get",le="1"} 98
tikv_grpc_msg_duration_seconds_bucket{type="kv_get",le="+Inf"} 98
tikv_grpc_msg_duration_seconds_sum{type="kv_get"} 7
tikv_grpc_msg_duration_seconds_bucket{type="kv_gc",le="0.1"} 0
tikv_grpc_msg_duration_seconds_bucket{type="kv_gc",le="+Inf"} 900
tikv_grpc_msg_duration_seconds_bucket{type="kv_prewrite",le="0.1"} 1
tikv_grpc_msg_duration_seconds_bucket{type="kv_prewrite",le="1"} 2
tikv_grpc_msg_duration_seconds_bucket{type="kv_prewrite",le="+Inf"} 2
# TYPE tikv_server_report_failure_msg_total counter
tikv_server_report_failure_msg_total{type="unreachable",store_id="5"} 3
tikv_server_report_failure_msg_total{type="snapshot",store_id="6"} 3
# TYPE tikv_store_size_bytes gauge
tikv_store_size_bytes{type="capacity"} 1e12
tikv_store_size_bytes{type="used"} 4.5e9
tikv_store_size_bytes_other 1
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 10
"""


def test_metrics_of_a_store_are_summed_before_anything_is_made_of_them() -> None:
    found = store_metrics_from(METRICS)
    assert found.grpc == {0.1: 91.0, 1.0: 100.0, math.inf: 100.0}
    assert (found.failures, found.size_bytes, found.cpu_s) == ({5: 3.0}, 4_500_000_000, 10.0)
    assert not found.strange
    assert StoreMetrics().strange
    assert store_metrics_from(b"<html>hello</html>").strange
    # As Prometheus does it: 8 of the 9 that are above 0.1 s.
    assert quantile_of(found.grpc, 0.99) == pytest.approx(0.1 + 0.9 * 8 / 9)
    # Series that do not stand together are told apart all the same.
    lines = METRICS.splitlines(keepends=True)
    mixed = b"".join([*lines[:2], lines[6], *lines[2:6], *lines[7:]])
    assert store_metrics_from(mixed).grpc == found.grpc
    assert buckets_of(METRICS, GRPC)[math.inf] == 1000.0
    # Whoever does not say what is what is read all the same.
    plain = b"".join(line for line in lines if not line.startswith(b"#"))
    assert store_metrics_from(plain) == found
    assert list(blocks_of(METRICS, ("process_cpu_seconds_total", "x"))) == [
        "process_cpu_seconds_total"
    ]
    assert b"kv_gc" in NOT_ASKED_OF_USERS


def test_quantiles_of_nothing_and_of_what_is_beyond_all_bounds() -> None:
    nothing: Buckets = {}
    assert quantile_of(nothing, 0.99) is None
    assert quantile_of({1.0: 0.0, math.inf: 0.0}, 0.99) is None
    assert quantile_of({1.0: 1.0, math.inf: 100.0}, 0.99) == 1.0
    assert since({1.0: 5.0}, {1.0: 3.0}) == {1.0: 2.0}
    assert since({1.0: 5.0}, {1.0: 7.0}) == {1.0: 5.0}  # it was started anew


def test_lines_that_are_no_samples_are_passed_over() -> None:
    text = b'a_b{x="1"} 2\na_b nan\na_b{broken 3\na_b{x="2"} word\na_bc 9\n'
    found: list[Sample] = list(samples_of(text, "a_b"))
    assert found == [({"x": "1"}, 2.0)]
    assert list(samples_of(b"a_bc 1\n", "a_b")) == []
    assert list(samples_of(b"x 1\n# y\na_b 4", "a_b")) == [({}, 4.0)]


def test_reading_metrics_takes_no_longer_than_they_are_long() -> None:
    hostile = b"tikv_grpc_msg_duration_seconds_bucket{"
    assert growth(lambda n: store_metrics_from(hostile * n), 7_500) <= GROWTH_MAX
    assert growth(lambda n: line_from("[" * n), 250_000) <= GROWTH_MAX
    assert growth(lambda n: operators_from(["a {" * n]), 25_000) <= GROWTH_MAX


def test_the_pace_of_a_store_is_known_after_two_looks_and_forgotten_with_a_silence() -> None:
    pace, first = Pace(), store_metrics_from(METRICS)
    assert pace.find_unreached("a", first) is None
    assert pace.readings("a", first, 10.0) == {"store_bytes": 4_500_000_000}
    later = store_metrics_from(
        METRICS.replace(b'"5"} 3', b'"5"} 4').replace(b"_total 10", b"_total 12")
    )
    assert pace.find_unreached("a", later) == frozenset({5})
    readings = pace.readings("a", later, 14.0)
    assert (readings["qps"], readings["p99_ms"], readings["cpu_cores"]) == (0.0, None, 0.5)
    pace.forget("a")
    assert pace.find_unreached("a", later) is None


def test_who_leads_pd_shows_what_schedules_and_who_follows_shows_zeros() -> None:
    leading = (
        b'pd_regions_status{type="miss-peer-region-count"} 3\n'
        b'pd_regions_status{type="down-peer-region-count"} 0\n'
        b'pd_regions_status{type="pending-peer-region-count"} 0\n# x\n'
        b'pd_scheduler_status{kind="balance-leader-scheduler",type="allow"} 0\n# x\n'
        b'pd_hotspot_status{store="4",type="hot_write_region_as_leader"} 2\n'
    )
    screen = screen_from(leading)
    assert screen.complete
    assert screen == Screen(
        {"miss-peer": 3, "down-peer": 0, "pending-peer": 0},
        {"balance-leader-scheduler": False},
        {"write": 2, "read": 0},
    )
    following = screen_from(leading.replace(b"pd_scheduler_status", b"other"))
    assert not following.complete
    facts = Facts()
    facts.learn_screen(screen)
    facts.learn_screen(following)
    assert facts.checks == {"miss-peer": 3, "down-peer": 0, "pending-peer": 0}
    assert facts.schedulers is None


def test_who_has_waited_longest_is_asked_next() -> None:
    quiet = Screen(dict.fromkeys(CHECKS, 0), {"balance-leader-scheduler": True}, {"write": 0})
    asked = choose_questions(quiet, ("balance-leader-scheduler",), prometheus=True)
    assert [one.name for one in asked] == ["operators", "count", PROMETHEUS_UP, "members"]
    loud = Screen({"miss-peer": 7}, {EVICT_LEADER: True}, {"write": 1})
    names = [one.name for one in choose_questions(loud, (EVICT_LEADER,), prometheus=False)]
    assert names[0] == "evicting"
    assert {"miss-peer", "hot-write"} <= set(names)
    turns = Turns()
    often, seldom = Question("often", "a"), Question("seldom", "b", every=3)
    taken = [turns.take([often, seldom], 1)[0].name for _ in range(9)]
    assert taken == ["often", "seldom", *["often"] * 3, "seldom", *["often"] * 3]
    assert turns.take([often], 0) == []
    assert get_args(Reading) == ("json", "text", "head")


def test_what_could_not_be_told_is_not_known_any_more() -> None:
    facts, failed = Facts(), Answer(error="no")
    for name, body in (("operators", []), ("schedulers", [f"{EVICT_LEADER}-7", EVICT_LEADER])):
        facts.learn(Question(name, ""), Answer(body))
    assert facts.operators == ()
    assert not facts.evicting  # one of them does not say for whom it is
    facts.learn(Question("evicting", ""), Answer({"store-id-ranges": {"4": []}}))
    assert sorted(facts.evicting or ()) == [4, 7]
    facts.learn(Question("count", ""), Answer(content=b'{"count": 9}'))
    facts.compare(7)
    assert (facts.count, facts.leaderless) == (9, 2)
    facts.learn(Question("miss-peer", ""), Answer(content=b'{"count":2,"regions":[]}'))
    facts.learn(Question("hot-write", ""), Answer({"as_leader": {}}))
    assert (facts.checks, facts.hot, facts.hottest) == ({"miss-peer": 2}, {"write": None}, None)
    for name in ("operators", "count", "members", "miss-peer", "hot-write", "evicting", "paused"):
        facts.learn(Question(name, ""), failed)
    known = (facts.operators, facts.count, facts.members, facts.evicting)
    assert set(known) == {None}
    assert not facts.checks
    assert not facts.hot


def test_a_line_of_a_log_is_read_with_its_quotes_brackets_and_zone() -> None:
    text = (
        '[2026/03/04 14:00:00.250 +02:00] [WARN] [raft_client.rs:821] ["send to [store 5] failed"]'
        ' [addr=127.0.0.1:20162] ["a key"="it \\"said\\" [no]=1"] [empty=] [n=7]'
    )
    assert line_from(text) == LogLine(
        NOON + timedelta(milliseconds=250),
        "WARN",
        "raft_client.rs:821",
        "send to [store 5] failed",
        {
            "addr": "127.0.0.1:20162",
            "a key": 'it "said" [no]=1',
            "empty": "",
            "n": "7",
        },
    )
    assert line_from("panicked at src/main.rs") is None
    elected = line_from(
        '[2026/03/04 14:00:00.250 +02:00] [INFO] [raft.rs:1] ["became leader at term 7"]'
    )
    assert elected is not None
    assert elected.tells_of("log_elections")
    assert not elected.is_error


def test_a_log_that_is_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    log, tail = tmp_path / "a.log", LogTail()
    log.write_text("old\n" * 100)
    assert tail.readings(str(log))["log_errors"] == 0
    log.write_text("[2026/03/04 14:00:00.250 +02:00] [ERROR] [a:1] [x]\n")
    assert tail.readings(str(log))["log_last_error"] == "x"
    assert tail.readings(str(tmp_path / "none")) == {}
    here = local_readings(Target("a", PD, data_dir=str(tmp_path), log=str(log)), tail)
    assert here["log_bytes"] == log.stat().st_size
    assert "disk_ratio" in here
    assert local_readings(Target("a", PD, log=str(log), runs_at="ssh://x"), tail) == {}


def test_prometheus_is_asked_for_everything_at_once() -> None:
    asked = scrape_path(metrics=True)
    assert asked.startswith("/api/v1/query?query=label_replace%28max")
    assert "kv_gc" in asked
    assert "kv_gc" not in scrape_path(metrics=False)
    series = [
        {"metric": {"instance": "a:1", "operator_reading": "up"}, "value": [1, "1"]},
        {"metric": {"instance": "a:1", "operator_reading": "p99_ms"}, "value": [1, "12.34"]},
        {"metric": {"instance": "a:1", "operator_reading": "qps"}, "value": [1, "NaN"]},
        {"metric": {}, "value": []},
    ]
    scraped: Scraped | None = scraped_from({"status": "success", "data": {"result": series}})
    assert scraped == {"a:1": {"up": 1.0, "p99_ms": 12.3 + 0.04}}
    assert readings_at(scraped, "a:1")["p99_ms"] == 12.3
    assert readings_at(scraped, "b:1")["prometheus_up"] is False
    assert readings_at(None, "a:1") == {}
