"""What all members are together: one more target, what is shared by all, and who differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_lab.faults import is_over
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.ports import Ability, CorrectOutcome
from operator_sre.subjects.etcd.client import Answer
from operator_sre.subjects.etcd.cluster import WINDOW_S, Cluster, Hearing, summarize
from operator_sre.subjects.etcd.configuration import (
    CONFIG_FILE,
    SHARED,
    config_file,
    differing,
    line_of,
    local_readings,
    reading_of,
    setting,
    shared_in,
    with_line,
)
from operator_sre.subjects.etcd.members import (
    CLUSTER,
    KIND,
    Member,
    MemberStatus,
    Metrics,
    with_cluster,
)
from tests.subjects.etcd.looks import UP, Watch, members_in

MEMBERS = (Target("a", KIND, port=1), Target("b", KIND, port=2), Target("other", "store"))
QUOTA = "quota-backend-bytes"


def test_every_member_needs_the_cluster_and_nothing_else_does() -> None:
    *given, cluster = with_cluster(MEMBERS)
    assert (cluster.name, cluster.kind, cluster.process, cluster.port) == (
        "cluster",
        CLUSTER,
        None,
        None,
    )
    assert [one.depends_on for one in given] == [("cluster",), ("cluster",), ()]
    assert [one.name for one in given] == [one.name for one in MEMBERS]


def test_who_follows_a_slow_leader_needs_it_and_the_leader_does_not_need_itself() -> None:
    a, b, *_ = with_cluster(MEMBERS, slow_leader="a")
    assert a.depends_on == ("cluster",)
    assert b.depends_on == ("cluster", "a")


def test_a_member_of_that_name_keeps_it_and_without_members_there_is_no_cluster() -> None:
    named = (Target("cluster", KIND, port=1),)
    assert [one.name for one in with_cluster(named)] == ["cluster", "cluster-2"]
    assert with_cluster((MEMBERS[2],)) == (MEMBERS[2],)


def test_the_fullest_member_speaks_for_all_and_every_alarm_is_told() -> None:
    seen = [
        Seen("a", {**UP, "quota_ratio": 0.2, "alarms": "NOSPACE"}),
        Seen("b", {**UP, "quota_ratio": 0.9, "is_leader": True, "successor": "a"}),
        Seen("c", {"kind": KIND, "reachable": False, "quorum": True}),
    ]
    whole = summarize("all", seen, refused="", known={})
    wanted: dict[str, Value] = {
        "kind": CLUSTER,
        "members_up": 2,
        "alarms": "NOSPACE",
        "alarms_by": "a",
        "fullest": "b",
        "quota_ratio": 0.9,
        "leader": "b",
        "successor": "a",
        "let_in": True,
        "quorum": True,
    }
    assert whole.target == "all"
    assert {name: whole.readings.get(name) for name in wanted} == wanted


def test_of_a_cluster_of_which_nobody_answers_next_to_nothing_is_known() -> None:
    gone = Seen("a", {"kind": KIND, "reachable": False, "quorum": None})
    readings = summarize("all", [gone], refused=None, known={}).readings
    assert readings["members_up"] == 0
    assert not {"alarms", "quota_ratio", "let_in"} & set(readings)


def _cluster(*statuses: Answer) -> Cluster:
    return Cluster([MemberStatus(Target(str(n), KIND), one) for n, one in enumerate(statuses)])


def _listing(members: tuple[Member, ...], *up: int) -> Cluster:
    """Three targets, of which these are up, by the number of their id; all know this list."""
    gone = Answer(error="refused", reached=False)
    return Cluster(
        [
            MemberStatus(
                Target(f"m{n}", KIND, port=n),
                Answer({"header": {"member_id": str(n)}}) if n in up else gone,
                members=members if n in up else (),
            )
            for n in (1, 2, 3)
        ]
    )


def test_a_member_is_removed_when_nothing_in_the_list_can_be_it() -> None:
    listed = [Member(n, f"m{n}") for n in (1, 2, 3)]
    whole = _listing(tuple(listed), 1, 2)
    assert [whole.lists(one) for one in whole.statuses] == [True, True, True]
    without = _listing(tuple(listed[:2]), 1, 2)
    assert [without.lists(one) for one in without.statuses] == [True, True, False]
    renamed = _listing((*listed[:2], Member(9, "another")), 1, 2)
    assert renamed.lists(renamed.statuses[2]) is None  # it may have another name
    outcast = _listing(tuple(listed[:2]), 1, 2, 3)
    assert outcast.lists(outcast.statuses[2]) is False
    alone = _listing(tuple(listed[:2]), 3)
    assert alone.lists(alone.statuses[2]) is None  # its own list may be an old one


def test_listed_members_without_a_name_never_started() -> None:
    ghosts = (Member(10, "", ("http://x:1",)), Member(11, "", (), learner=True))
    found = _listing((Member(1, "m1"), *ghosts), 1).ghosts()
    assert found["ghosts"] == "a (voter, http://x:1); b (learner, no address)"
    assert _listing((Member(1, "m1"),), 1).ghosts() == {"ghosts": "", "has_ghosts": False}
    assert _cluster(GONE).ghosts() == {}


NOBODY = Answer(error="etcdserver: user name is empty", code=3)
LET_IN, GONE = Answer(), Answer(error="127.0.0.1:1: connection refused", reached=False)


@pytest.mark.parametrize(
    ("answers", "refusal"),
    [
        ([NOBODY, NOBODY], NOBODY.error),
        ([NOBODY, GONE], NOBODY.error),
        ([Answer(error="permission denied", code=7)], "permission denied"),
        ([Answer(error="invalid auth token", code=16)], "invalid auth token"),
        ([NOBODY, LET_IN], ""),  # we may read, and not write
        ([LET_IN], ""),
        ([Answer(error="request timed out", code=14)], ""),  # slow is not closed
        ([GONE], None),
        ([], None),
    ],
)
def test_who_is_refused_by_everybody_is_not_let_in(
    answers: list[Answer], refusal: str | None
) -> None:
    assert _cluster().refusal(answers) == refusal


def test_a_status_that_is_refused_counts_as_well() -> None:
    denied = Answer(error="permission denied", code=7)
    assert _cluster(denied).refusal([]) == "permission denied"
    assert not _cluster(denied).up


def _leading(received: dict[str, int], peers: dict[str, bool]) -> MemberStatus:
    status = {"header": {"member_id": "5"}, "leader": "5"}
    listed = (Member(5, "a"), Member(6, "b"))
    return MemberStatus(Target("a", KIND), Answer(status), Metrics({}, peers, {}, received), listed)


@pytest.mark.parametrize(
    ("received", "peers", "deaf", "heard"),
    [
        ({"6": 10}, {"6": True}, set(), True),
        ({"6": 10}, {"6": True}, {"6"}, False),  # its connection stands, and is silent
        ({"6": 10}, {"6": False}, set(), False),
        ({}, {}, set(), None),
    ],
)
def test_the_leader_says_whether_it_hears_who_does_not_answer_us(
    received: dict[str, int], peers: dict[str, bool], deaf: set[str], heard: bool | None
) -> None:
    silent = MemberStatus(Target("b", KIND), GONE)
    cluster = Cluster([_leading(received, peers), silent])
    assert cluster.hears(silent, frozenset(deaf)) is heard
    assert Cluster([silent]).hears(silent, frozenset()) is None


def test_silence_can_be_told_only_after_a_while() -> None:
    one, hearing = _leading({"6": 10}, {"6": True}), Hearing()
    assert not hearing.has_history(one, 0.0)
    assert hearing.deaf_to(one, 0.0) == frozenset()
    assert not hearing.has_history(one, WINDOW_S / 2)
    assert hearing.has_history(one, WINDOW_S)
    assert hearing.deaf_to(one, WINDOW_S) == {"6"}


def test_who_has_another_setting_than_most_is_found() -> None:
    same = {QUOTA: "32", "election-timeout": "1000"}
    assert differing({"a": same, "b": same, "c": same}) == {"a": {}, "b": {}, "c": {}}
    odd = {**same, QUOTA: "16"}
    assert differing({"a": same, "b": odd, "c": same})["b"] == {QUOTA: ("16", "32")}
    # Of two nobody can tell who is right; of one there is nobody to differ from.
    assert differing({"a": same, "b": odd}) == {
        "a": {QUOTA: ("32", None)},
        "b": {QUOTA: ("16", None)},
    }
    assert differing({"a": same, "b": {}}) == {"a": {}, "b": {}}


def test_what_a_member_says_itself_counts_more_than_its_file() -> None:
    readings: dict[str, Value] = {reading_of(QUOTA): "16", reading_of("snapshot-count"): ""}
    assert shared_in(readings) == {QUOTA: "16", "snapshot-count": ""}
    assert shared_in({**readings, "quota_bytes": 32})[QUOTA] == "32"
    assert shared_in({}) == {}


def test_lines_are_taken_as_they_are_and_can_be_taken_out(tmp_path: Path) -> None:
    text = 'name: a\nauto-compaction-retention: "100"\nsnapshot-count: 5\n'
    assert line_of(text, "auto-compaction-retention") == 'auto-compaction-retention: "100"'
    assert line_of(text, "quota-backend-bytes") == ""
    other = with_line(text, "auto-compaction-retention", 'auto-compaction-retention: "7"')
    assert setting(other, "auto-compaction-retention") == "7"
    assert with_line(text, "snapshot-count", "") == 'name: a\nauto-compaction-retention: "100"\n'
    (tmp_path / CONFIG_FILE).write_text(text)
    readings = local_readings(Target("a", KIND, data_dir=str(tmp_path)), down=False)
    assert {name: readings[reading_of(name)] for name in ("snapshot-count", QUOTA)} == {
        "snapshot-count": "5",
        QUOTA: "",
    }
    assert set(map(reading_of, SHARED)) <= set(readings)


@pytest.mark.asyncio
@pytest.mark.timeout(180)
async def test_a_member_with_another_setting_is_found_and_gets_that_of_the_others(
    watch: Watch,
) -> None:
    target, other = await watch.follower(), await watch.leader()
    async with watch.breaking("configuration_drift", target) as fault:
        look = await watch.broken("settings_agree", target)
        differs = {one.target: one.readings["settings_differ"] for one in members_in(look)}
        assert [name for name, differ in differs.items() if differ] == [target]
        assert await is_over(watch.rig, fault) != ""
        spared = await watch.use("align_settings", target=other)
        assert (spared.ok, spared.data) == (True, {"changed": False})
        file = config_file(watch.target(target))
        assert file is not None
        whole = file.read_text()
        file.write_text(with_line(whole, "listen-client-urls", ""))
        refused = await watch.use("align_settings", target=target)
        assert not refused.ok
        assert "listen-client-urls" in refused.stderr
        file.write_text(whole)
        result = await watch.use("align_settings", target=target)
        assert result.ok, result.stderr
        assert result.data == {"changed": True, "settings": QUOTA}
        assert await is_over(watch.rig, fault) == ""
        await watch.healthy()
        nobody = await watch.use("align_settings", target="nobody")
        assert nobody.category is FailureCategory.NOT_FOUND


@pytest.mark.asyncio
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("name", "heard"), [("network_isolation", False), ("file_descriptors", True)]
)
@pytest.mark.slow
async def test_a_member_that_is_cut_off_is_told_from_one_that_hangs(
    watch: Watch, name: str, heard: bool
) -> None:
    target = await watch.follower()
    async with watch.breaking(name, target):
        look = await watch.broken("member_down", target)
        # What came before it fell silent is no sign of life, so not even the first look errs.
        assert heard or look.of(target).readings.get("heard") is not True
        await watch.until(lambda seen, _: seen.of(target).readings.get("heard") is heard)


@pytest.mark.asyncio
@pytest.mark.timeout(180)
async def test_who_is_not_let_in_any_more_is_told_so_and_nobody_is_called_down(
    watch: Watch,
) -> None:
    async with watch.breaking("wrong_credential", "member-1") as fault:
        look = await watch.broken("not_let_in", CLUSTER)
        _, found = await watch.look()
        broken = {key for key, one in found.items() if one.health is Health.BROKEN}
        assert broken == {("not_let_in", CLUSTER)}
        assert {one.readings["reachable"] for one in members_in(look)} == {True}
        assert "user name is empty" in str(look.of(CLUSTER).readings["refusal"])
        assert fault.end is CorrectOutcome.ESCALATED
        assert await is_over(watch.rig, fault) != ""
        assert all(not watch.rig.damage(one.name) & {Ability.KILL} for one in watch.rig.targets())
