"""What is made of what members say: metrics, member lists, hashes, settings on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.target import Target
from operator_sre.subjects.etcd.client import Answer, number, to_base64
from operator_sre.subjects.etcd.cluster import (
    WINDOW_S,
    Cluster,
    Hash,
    Hearing,
    agreement,
    status_readings,
)
from operator_sre.subjects.etcd.configuration import (
    CONFIG_FILE,
    config_file,
    data_dir,
    local_readings,
    setting,
    with_setting,
)
from operator_sre.subjects.etcd.members import (
    KIND,
    Member,
    MemberStatus,
    Metrics,
    alarms_from,
    hex_of,
    member_of,
    members_from,
    metrics_from,
    quantile_of,
    quorum_of,
)

METRICS = """\
# HELP etcd_server_quota_backend_bytes Current backend storage quota size in bytes.
etcd_server_quota_backend_bytes 3.3554432e+07
etcd_server_proposals_failed_total 3
etcd_network_active_peers{Local="a",Remote="b"} 1
etcd_network_active_peers{Local="a",Remote="c"} 0
etcd_network_peer_received_bytes_total{From="b"} 1.4e+03
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 98
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 99
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 100
etcd_debugging_mvcc_keys_total NaN
go_goroutines 7
etcd_server_proposals_pending nonsense
"""


def test_metrics_are_read_and_what_is_no_number_is_passed_over() -> None:
    found = metrics_from(METRICS)
    assert found.numbers == {"quota_bytes": 32 << 20, "proposals_failed": 3}
    assert found.peers == {"b": True, "c": False}
    assert found.received == {"b": 1400}
    assert found.fsyncs == {0.001: 98.0, 0.002: 99.0, float("inf"): 100.0}
    assert metrics_from("") == Metrics()


def test_a_quantile_counts_only_what_came_since_the_last_look() -> None:
    now = metrics_from(METRICS).fsyncs
    assert quantile_of(now, {}, 0.99) == 0.002
    assert quantile_of(now, {}, 0.5) == 0.001
    assert quantile_of(now, {0.001: 98.0, 0.002: 98.0, float("inf"): 98.0}, 0.99) == 0.002
    assert quantile_of(now, now, 0.99) is None
    assert quantile_of({}, {}, 0.99) is None
    # It was started anew, and counts from 0.
    assert quantile_of({0.001: 5.0, float("inf"): 5.0}, now, 0.99) == 0.001


def test_numbers_of_64_bits_come_as_texts() -> None:
    assert number({"a": "15849727064860997524"}, "a") == 15849727064860997524
    assert number({"a": 7}, "a") == 7
    assert number({}, "a") == 0
    odd: list[object] = [True, None, [], "x", "9" * 30]
    assert [number({"a": one}, "a") for one in odd] == [0] * 5
    assert to_base64("a") == to_base64(b"a") == "YQ=="


def _member(id_: int, name: str = "", *, learner: bool = False) -> Member:
    return Member(id_, name, (f"http://h:{id_}",), (f"http://127.0.0.1:{id_}",), learner)


def test_a_member_list_is_read_and_targets_are_found_in_it() -> None:
    body = {
        "members": [
            {"ID": "5", "name": "one", "peerURLs": ["http://h:5"], "clientURLs": ["http://c:1"]},
            {"ID": "6", "name": "two", "isLearner": True},
            {"name": "without an id"},
            "nonsense",
        ]
    }
    one, two = members_from(body)
    assert (one.name, one.peer_urls, one.learner) == ("one", ("http://h:5",), False)
    assert two.learner
    assert members_from({"members": 7}) == ()
    by_name, by_place = Target("one", KIND, port=9), Target("x", KIND, host="c", port=1)
    assert member_of(by_name, [one, two]) is one
    assert member_of(by_place, [one, two]) is one
    assert member_of(by_name, [one, two], id_=6) is two
    assert member_of(by_name, [one, two], id_=7) is None
    assert member_of(Target("y", KIND, port=2), [one, two]) is None


def test_alarms_are_read_with_who_raised_them() -> None:
    errors = ["memberID:15 alarm:NOSPACE ", "etcdserver: no leader", "alarm:CORRUPT ", 7]
    assert alarms_from(errors) == [(15, "NOSPACE"), (0, "CORRUPT")]
    assert alarms_from(None) == []
    assert hex_of(255) == "ff"


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_more_than_half_decide(voters: int, needed: int) -> None:
    assert quorum_of(voters) == needed


MEMBERS = tuple(_member(id_, f"m{id_}") for id_ in (1, 2, 3))


def _up(id_: int, leader: int = 1, *, lost: tuple[int, ...] = (), **more: object) -> MemberStatus:
    body = {
        "header": {"member_id": str(id_), "revision": "10"},
        "leader": str(leader),
        "raftTerm": "2",
        "raftIndex": "100",
        "raftAppliedIndex": "100",
        **more,
    }
    peers = {hex_of(one.id): one.id not in lost for one in MEMBERS if one.id != id_}
    return MemberStatus(
        Target(f"m{id_}", KIND, port=id_), Answer(body), Metrics(peers=peers), MEMBERS
    )


def _gone(id_: int) -> MemberStatus:
    return MemberStatus(Target(f"m{id_}", KIND, port=id_), Answer(error="gone", reached=False))


READ = Answer({"count": "0"})
WAITED = Answer(error="it did not answer in time", reached=False)
DENIED = Answer(error="permission denied", code=7)


def test_a_quorum_is_proven_by_a_read_and_never_assumed() -> None:
    whole = Cluster([_up(1), _up(2), _up(3)])
    assert whole.quorum({"m1": WAITED}) is True  # a majority follows one leader
    one_left = Cluster([_up(1, 0), _gone(2), _gone(3)])
    assert one_left.quorum({}) is False
    assert (one_left.voters, one_left.healthy_voters) == (3, 0)
    fresh = Cluster([_up(1), _gone(2), _gone(3)])
    assert fresh.quorum({"m1": WAITED}) is False
    assert fresh.quorum({"m1": READ}) is True  # the others are gone for us only
    assert fresh.quorum({"m1": DENIED}) is None
    assert Cluster([_gone(1), _gone(2), _gone(3)]).quorum({}) is None


def test_the_leader_of_the_newest_term_is_right() -> None:
    cluster = Cluster([_up(1, 1, raftTerm="2"), _up(2, 2, raftTerm="3"), _up(3, 2, raftTerm="3")])
    assert cluster.leader is not None
    assert cluster.leader.id == 2
    assert cluster.successor is not None
    assert cluster.successor.id == 3
    assert status_readings(cluster.up[2], cluster)["leader"] == "m2"


def test_a_learner_neither_votes_nor_leads() -> None:
    members = (*MEMBERS[:2], replace(MEMBERS[2], learner=True))
    seen = [replace(_up(id_), members=members) for id_ in (1, 2, 3)]
    cluster = Cluster(seen)
    assert (cluster.voters, cluster.healthy_voters) == (2, 2)
    assert cluster.successor is not None
    assert cluster.successor.id == 2


def test_an_alarm_is_told_at_who_raised_it_whoever_tells_it() -> None:
    errors = ["memberID:3 alarm:NOSPACE "]
    cluster = Cluster([_up(1, errors=errors), _up(2, errors=errors), _up(3)])
    assert [cluster.alarms_of(one) for one in cluster.statuses] == ["", "", "NOSPACE"]
    stranger = Cluster([_up(1, errors=["memberID:99 alarm:CORRUPT "]), _up(2)])
    assert [stranger.alarms_of(one) for one in stranger.statuses] == ["CORRUPT", ""]


def test_a_broken_link_is_told_at_the_member_that_lost_everybody() -> None:
    cut = Cluster([_up(1, lost=(3,)), _up(2, lost=(3,)), _up(3, 0, lost=(1, 2))])
    assert cut.lost_peers({}) == {"m1": "", "m2": "", "m3": "m1,m2"}
    one_link = Cluster([_up(1), _up(2, lost=(3,)), _up(3, lost=(2,))])
    assert one_link.lost_peers({}) == {"m1": "", "m2": "m3", "m3": "m2"}
    # Who is down has no link to be judged by.
    assert Cluster([_up(1, lost=(3,)), _up(2, lost=(3,)), _gone(3)]).lost_peers({}) == {
        "m1": "",
        "m2": "",
    }


def test_silence_counts_between_a_leader_and_its_followers_only() -> None:
    cluster = Cluster([_up(1), _up(2), _up(3, 0)])
    deaf = {"m1": frozenset({"3"}), "m2": frozenset({"3"}), "m3": frozenset({"1", "2"})}
    assert cluster.lost_peers(deaf) == {"m1": "", "m2": "", "m3": "m1"}


def test_who_says_nothing_of_its_peers_is_not_judged() -> None:
    mute = replace(_up(2), metrics=Metrics())
    assert "m2" not in Cluster([_up(1), mute, _up(3)]).lost_peers({})


def test_hearing_needs_a_while_and_knows_a_member_that_counts_anew() -> None:
    hearing = Hearing()

    def heard(at: float, id_: int = 1, **received: int) -> frozenset[str]:
        return hearing.deaf_to(replace(_up(id_), metrics=Metrics(received=received)), at)

    assert heard(0.0, b=10, c=10) == frozenset()
    assert heard(WINDOW_S / 2, b=10, c=10) == frozenset()
    assert heard(WINDOW_S, b=10, c=11) == {"b"}
    assert heard(2 * WINDOW_S, b=5, c=5) == frozenset()
    assert heard(3 * WINDOW_S, b=5, c=6, d=1) == {"b"}
    assert heard(4 * WINDOW_S, 2, b=5) == frozenset()  # m1 has another id: it was replaced


def _hash(value: int, revision: int = 9, compacted: int = 1) -> Hash:
    return Hash(value, revision, compacted)


def test_members_agree_by_majority() -> None:
    assert agreement({"a": _hash(1), "b": _hash(1), "c": _hash(2)}) == {
        "a": True,
        "b": True,
        "c": False,
    }
    # Where nobody can tell who is right, nobody is.
    assert agreement({"a": _hash(1), "b": _hash(2)}) == {"a": False, "b": False}
    assert agreement({"a": _hash(1)}) == {}
    assert agreement({}) == {}
    # What was compacted in between cannot be compared.
    assert agreement({"a": _hash(1), "b": _hash(1), "c": _hash(2, compacted=5)}) == {
        "a": True,
        "b": True,
    }


def test_hashes_are_asked_at_a_revision_that_everybody_has_who_keeps_up() -> None:
    def at(id_: int, revision: int, compacted: int, leader: int = 1) -> MemberStatus:
        header = {"member_id": str(id_), "revision": str(revision)}
        metrics = Metrics({"compact_revision": compacted})
        return replace(_up(id_, leader, header=header), metrics=metrics)

    assert Cluster([at(1, 12, 5), at(2, 10, 5), at(3, 11, 5)]).hash_revision() == 10
    assert Cluster([at(1, 12, 5), at(2, 10, 5), at(3, 3, 1, leader=0)]).hash_revision() == 10
    assert Cluster([at(1, 12, 5), at(2, 10, 5), at(3, 3, 1)]).hash_revision() == 10
    assert Cluster([at(1, 5, 5), at(2, 5, 5)]).hash_revision() == 0
    assert Cluster([]).hash_revision() == 0


def test_settings_on_disk_are_read_and_changed_one_at_a_time(tmp_path: Path) -> None:
    text = "name: a\ndata-dir: /box/x/kept\ninitial-cluster-state: new\n"
    assert setting(text, "initial-cluster-state") == "new"
    assert setting(text, "cluster") == ""
    changed = with_setting(text, "initial-cluster-state", "existing")
    assert changed == text.replace("new", "existing")
    assert with_setting(text, "log-level", r"\1warn").endswith("\nlog-level: \\1warn\n")
    (tmp_path / "data").mkdir()
    (tmp_path / CONFIG_FILE).write_text(text)
    target = Target("a", KIND, data_dir=str(tmp_path / "data"))
    assert config_file(target) == tmp_path / CONFIG_FILE
    assert data_dir(target) == tmp_path / "data" / "kept"
    far = replace(target, runs_at="ssh://somewhere")
    assert (config_file(far), data_dir(far), local_readings(far, down=True)) == (None, None, {})


def test_the_last_words_of_one_that_is_down_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("fine\n" * 20_000 + '{"level":"fatal","error":"walpb: crc mismatch"}\n')
    target = Target("a", KIND, log=str(log), data_dir=str(tmp_path))
    found = local_readings(target, down=True)
    assert found["data_damaged"] is True
    assert found["log_bytes"] == log.stat().st_size
    assert isinstance(found["disk_free_bytes"], int)
    log.write_text("it was told to end\n")
    assert local_readings(target, down=True)["data_damaged"] is False
    assert "data_damaged" not in local_readings(target, down=False)
    gone = replace(target, log=str(tmp_path / "none"), data_dir=str(tmp_path / "none"))
    assert local_readings(gone, down=True) == {}
