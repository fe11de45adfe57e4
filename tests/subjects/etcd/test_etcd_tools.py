"""What the tools do to a real cluster, and what they refuse."""

from __future__ import annotations

import pytest

from operator_lab.faults import is_over
from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.tool import ToolSource
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job, Tool
from operator_sre.subjects.etcd.call import NO_QUORUM
from operator_sre.subjects.etcd.client import number, to_base64
from operator_sre.subjects.etcd.rig import EtcdDepot
from operator_sre.subjects.etcd.tools import KNOWLEDGE, etcd_tools
from operator_sre.tickets import incidents_of
from tests.subjects.etcd.looks import Watch, members_in

pytestmark = [pytest.mark.asyncio, pytest.mark.slow, pytest.mark.timeout(180)]

SPECS = tuple(KNOWLEDGE.tools.values())
BIG = to_base64(bytes(200_000))


def _readings(look: Observation, name: str) -> dict[str, object]:
    return {one.target: one.readings.get(name) for one in members_in(look)}


async def test_the_tools_are_described(watch: Watch) -> None:
    tools = etcd_tools(watch.settings)
    assert sorted(one.spec.name for one in tools) == sorted(one.name for one in SPECS)
    assert all(isinstance(one, Tool) for one in tools)
    assert all(one.changes and one.verify and one.expected and one.ends for one in SPECS)
    assert all(one.source is ToolSource.SUBJECT for one in SPECS)
    assert KNOWLEDGE.tools["replace_member"].risk is Risk.HIGH
    move = KNOWLEDGE.tools["move_leader"]
    assert (move.undo, move.reversible) == ("move_leader", True)


async def test_what_makes_no_sense_is_a_result(watch: Watch) -> None:
    calls: list[tuple[str, dict[str, object], FailureCategory]] = [
        ("defragment", {}, FailureCategory.SYNTAX),
        ("defragment", {"target": 7}, FailureCategory.SYNTAX),
        ("defragment", {"target": "nobody"}, FailureCategory.NOT_FOUND),
        ("move_leader", {"to": "nobody"}, FailureCategory.NOT_FOUND),
        ("compact", {"keep": -1}, FailureCategory.SYNTAX),
        ("compact", {"keep": True}, FailureCategory.SYNTAX),
        ("compact", {"other": 1}, FailureCategory.SYNTAX),
    ]
    for name, arguments, category in calls:
        tool = next(one for one in etcd_tools(watch.settings) if one.spec.name == name)
        result = await tool.call(arguments, Job())  # type: ignore[arg-type]
        assert (result.outcome, result.ok, result.category) == (Outcome.RAN, False, category)
        assert result.stderr


async def test_the_leader_moves_and_can_be_moved_back(watch: Watch) -> None:
    was, heir = await watch.leader(), await watch.follower()
    result = await watch.use("move_leader", to=heir)
    assert result.ok, result.stderr
    assert result.data == {"changed": True, "leader": heir}
    assert await watch.leader() == heir
    again = await watch.use("move_leader", to=heir)
    assert again.data == {"changed": False, "leader": heir}
    assert isinstance(result.undo, Action)
    assert (result.undo.tool, result.undo.arguments) == ("move_leader", {"to": was})
    chosen = await watch.use("move_leader")
    assert chosen.ok, chosen.stderr
    assert await watch.leader() == chosen.data["leader"] != heir


async def test_history_is_forgotten_and_the_file_becomes_small(watch: Watch) -> None:
    target = await watch.follower()
    for _ in range(20):
        said = await watch.ask(target, "kv/put", key=to_base64("shop/big"), value=BIG)
        assert said.ok, said.error
    grown = _readings(await watch.healthy(), "db_bytes")
    revision = number((await watch.ask(target, "maintenance/status")).body["header"], "revision")
    kept = await watch.use("compact", keep=5)
    assert kept.ok, kept.stderr
    assert int(str(kept.data["compact_revision"])) >= revision - 5
    look = await watch.until(
        lambda seen, _: (
            set(_readings(seen, "compact_revision").values()) == {kept.data["compact_revision"]}
        )
    )
    assert kept.data["changed"] is True
    assert set(_readings(look, "agrees").values()) == {True}
    too_many = await watch.use("compact", keep=10**9)
    assert (too_many.ok, too_many.data["changed"]) == (True, False)

    # Only the one that is named gives its space back.
    before = _readings(await watch.healthy(), "db_bytes")
    assert all(int(str(before[name])) >= int(str(grown[name])) for name in before)
    result = await watch.use("defragment", target=target)
    assert result.ok, result.stderr
    after = _readings(await watch.healthy(), "db_bytes")
    small, big = (int(str(result.data[name])) for name in ("after_bytes", "before_bytes"))
    assert small < big / 2
    assert int(str(after[target])) < big / 2
    others = [name for name in after if name != target]
    assert all(int(str(after[name])) >= int(str(before[name])) for name in others)


async def test_without_an_alarm_there_is_nothing_to_take_back(watch: Watch) -> None:
    result = await watch.use("disarm_alarm")
    assert (result.ok, result.data["changed"]) == (True, False)


@pytest.mark.slow
async def test_an_alarm_is_taken_back_when_there_is_room_and_not_before(watch: Watch) -> None:
    target = await watch.follower()
    async with watch.breaking("quota_reached", target) as fault:
        refused = await watch.use("disarm_alarm")
        assert not refused.ok
        assert "would come back" in refused.stderr
        assert (await watch.use("compact", keep=0)).ok
        for member in watch.rig.targets():
            assert (await watch.use("defragment", target=member.name)).ok
        still = await watch.ask(target, "kv/put", key=to_base64("a"), value=to_base64("b"))
        assert "space exceeded" in still.error
        assert (await watch.use("disarm_alarm")).ok
        assert (await watch.ask(target, "kv/put", key=to_base64("a"), value=to_base64("b"))).ok
        assert await is_over(watch.rig, fault) == ""
        await watch.healthy()


@pytest.mark.slow
async def test_one_tool_is_the_whole_way_out_of_a_full_database(watch: Watch) -> None:
    async with watch.breaking("quota_reached", await watch.follower()) as fault:
        look = await watch.broken("slow_write", await watch.leader())
        broken = watch.violations(look)
        assert {one.target for one in broken} == {"cluster", await watch.leader()}
        (incident,) = incidents_of(broken, watch.subject.targets())
        assert incident[0].target == "cluster"
        result = await watch.use("free_space")
        assert result.ok, result.stderr
        assert await is_over(watch.rig, fault) == ""
        await watch.healthy()


async def test_a_member_that_is_well_is_not_replaced(watch: Watch) -> None:
    result = await watch.use("replace_member", target=await watch.follower())
    assert not result.ok
    assert "not broken" in result.stderr


async def test_a_member_that_only_does_not_run_keeps_its_data(watch: Watch) -> None:
    target = await watch.follower()
    ids = _readings(await watch.healthy(), "member_id")
    async with watch.breaking("node_kill", target):
        result = await watch.use("replace_member", target=target)
        assert result.ok, result.stderr
        assert result.data == {"changed": True, "replaced": False}
        assert _readings(await watch.healthy(), "member_id") == ids


async def test_a_member_with_other_data_is_replaced_and_holds_what_all_hold(watch: Watch) -> None:
    target = await watch.follower()
    await watch.ask(target, "kv/put", key=to_base64("shop/kept"), value=to_base64("yes"))
    ids = _readings(await watch.healthy(), "member_id")
    async with watch.breaking("member_diverged", target) as fault:
        look = await watch.broken("members_agree", target)
        assert sum(value is False for value in _readings(look, "agrees").values()) == 1
        result = await watch.use("replace_member", target=target)
        assert result.ok, result.stderr
        assert result.data == {"changed": True, "replaced": True}
        assert await is_over(watch.rig, fault) == ""
        after = _readings(await watch.healthy(), "member_id")
    assert after[target] != ids[target]
    assert {one: id_ for one, id_ in after.items() if one != target} == {
        one: id_ for one, id_ in ids.items() if one != target
    }
    assert await watch.value(target, "shop/kept") == to_base64("yes")


async def test_with_the_quorum_lost_every_tool_refuses_and_says_why(watch: Watch) -> None:
    target = await watch.follower()
    ids = _readings(await watch.healthy(), "member_id")
    async with watch.breaking("quorum_lost", target):
        look = await watch.broken("quorum_lost", "cluster")
        up = next(one.target for one in members_in(look) if one.readings["reachable"])
        (incident,) = incidents_of(watch.violations(look), watch.subject.targets())
        assert incident[0].target == "cluster"
        for name, arguments in (
            ("defragment", {"target": up}),
            ("compact", {}),
            ("disarm_alarm", {}),
            ("move_leader", {}),
            ("free_space", {}),
            ("align_settings", {"target": up}),
            ("replace_member", {"target": target}),
        ):
            result = await watch.use(name, **arguments)
            assert (name, result.ok, result.stderr) == (name, False, NO_QUORUM)
        _, found = await watch.look()
        assert found["slow_read", up].health is Health.UNKNOWN
        assert found["no_leader", up].health is not Health.BROKEN
    assert _readings(await watch.healthy(), "member_id") == ids


async def test_what_a_majority_keeps_is_there_and_only_what_it_has_not_is_gone(
    watch: Watch,
) -> None:
    depot = EtcdDepot(watch.settings)
    marks = [f"mark-{number}" for number in range(6)]
    assert [await depot.put(mark) for mark in marks] == [True] * 6  # at every member
    assert await depot.find_lost(marks) == frozenset()
    target = await watch.follower()
    await watch.ask(target, "kv/deleterange", key=to_base64("shop/receipt/mark-2"))
    assert await depot.find_lost([*marks, "never"]) == frozenset({"mark-2", "never"})
    async with watch.breaking("node_pause", target):
        assert True in [await depot.put(f"paused-{number}") for number in range(3)]
        assert await depot.find_lost(marks) == frozenset({"mark-2"})
    async with watch.breaking("quorum_lost", target):
        assert not await depot.put("alone")
        assert await depot.find_lost(marks) is None  # unknown is not lost
    await watch.healthy()
    assert await depot.find_lost(marks) == frozenset({"mark-2"})


async def test_a_defragment_that_would_cost_the_quorum_is_refused(watch: Watch) -> None:
    down = await watch.follower()
    async with watch.breaking("node_kill", down):
        result = await watch.use("defragment", target=await watch.leader())
    assert not result.ok
    assert "no quorum while" in result.stderr
