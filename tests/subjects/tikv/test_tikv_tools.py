"""What the tools do through PD, what they wait for, and what they refuse before they act."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Prepared, ToolSource
from operator_protocols.domain.verdict import Risk
from operator_protocols.kit.tool import CheckedTool, Done, RefusedCall
from operator_protocols.ports import Job, Preparing
from operator_sre.subjects.tikv import call
from operator_sre.subjects.tikv.call import (
    DEFAULTS,
    GRANT_LEADER,
    NO_PD,
    UP,
    Live,
    PdCall,
    live_from,
)
from operator_sre.subjects.tikv.knowledge import KNOWLEDGE
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.state import Peer, Region, region_from
from operator_sre.subjects.tikv.tools import STRAY, tikv_tools
from operator_sre.subjects.tikv.tools_parts import (
    Command,
    Placing,
    last_words,
    restart_command,
    run,
)
from tests.engines.tikv.operations import Step
from tests.subjects.tikv.small_pd import SmallPd, small_pd

SPECS = tuple(KNOWLEDGE.tools.values())
EVICT = "evict-leader-scheduler"
BALANCE = "balance-leader-scheduler"


def test_the_tools_are_described() -> None:
    tools = tikv_tools(SmallPd().settings)
    assert sorted(one.spec.name for one in tools) == sorted(one.name for one in SPECS)
    assert all(isinstance(one, CheckedTool) for one in tools)
    assert all(one.changes and one.verify and one.expected for one in SPECS)
    assert all(one.source is ToolSource.SUBJECT for one in SPECS)
    risks = {one.name: one.risk for one in SPECS}
    assert risks["transfer_leader"] is Risk.MEDIUM
    assert {risks[name] for name in ("transfer_peer", "drain_store")} == {Risk.HIGH}
    undone = {one.name: one.undo for one in SPECS if one.undo}
    assert undone["drain_store"] == "undrain_store"
    assert set(undone.values()) <= set(risks)


@pytest.mark.asyncio
async def test_what_makes_no_sense_is_a_result() -> None:
    calls: list[tuple[str, dict[str, Argument], FailureCategory]] = [
        ("transfer_peer", {}, FailureCategory.SYNTAX),
        ("transfer_leader", {"region": "100", "to": "store-1"}, FailureCategory.SYNTAX),
        ("transfer_leader", {"region": 0, "to": "store-1"}, FailureCategory.SYNTAX),
        ("transfer_leader", {"region": True, "to": "store-1"}, FailureCategory.SYNTAX),
        ("transfer_leader", {"region": 999, "to": "store-1"}, FailureCategory.NOT_FOUND),
        ("transfer_leader", {"region": 100, "to": "nobody"}, FailureCategory.NOT_FOUND),
        ("transfer_peer", {"region": 100, "source": "9", "to": "7"}, FailureCategory.NOT_FOUND),
        ("drain_store", {"target": "pd-1"}, FailureCategory.NOT_FOUND),
        ("drain_store", {"store": 4}, FailureCategory.SYNTAX),
        ("split_region", {"region": 100, "policy": "usekey"}, FailureCategory.SYNTAX),
        ("merge_region", {"source": 100, "into": 999}, FailureCategory.NOT_FOUND),
        ("pause_scheduler", {"name": "all"}, FailureCategory.NOT_FOUND),
        ("pause_scheduler", {"name": BALANCE, "seconds": 10**6}, FailureCategory.SYNTAX),
        ("add_scheduler", {"name": "shuffle-leader-scheduler"}, FailureCategory.SYNTAX),
        ("restart_pd", {"target": "store-1"}, FailureCategory.NOT_FOUND),
        ("rotate_log", {"target": "nobody"}, FailureCategory.NOT_FOUND),
    ]
    async with small_pd() as pd:
        for name, arguments, category in calls:
            result = await pd.use(name, **arguments)
            told = (name, arguments, result.stderr)
            assert (result.outcome, result.ok, result.category) == (
                Outcome.RAN,
                False,
                category,
            ), told
            assert result.stderr.endswith(".")
        assert not pd.operations.records


@pytest.mark.asyncio
async def test_a_leader_moves_and_can_be_moved_back() -> None:
    async with small_pd() as pd:
        result = await pd.use("transfer_leader", region=100, to="store-2")
        assert result.ok, result.stderr
        assert pd.cluster.regions[100]["leader"] == 5
        assert result.undo is not None
        again = await pd.use("transfer_leader", region=100, to="5")
        assert again.data == {"changed": False, "leader": 5}
        back = await pd.use(result.undo.tool, **result.undo.arguments)
        assert back.ok, back.stderr
        assert pd.cluster.regions[100]["leader"] == 4


@pytest.mark.asyncio
async def test_the_hottest_region_is_meant_where_none_is_named() -> None:
    async with small_pd() as pd:
        cold = await pd.use("transfer_leader")
        assert "PD reports no hot region" in cold.stderr
        assert (await pd.use("split_region")).category is FailureCategory.NOT_FOUND
        told = {"region_id": 100, "flow_bytes": 9e6, "hot_degree": 9, "stores": [4, 5, 6]}
        pd.hot = {"4": {"store_bytes": 1e7, "statistics": [told]}}
        pd.cluster.regions[102]["leader"] = 5  # and the other one has fewer
        moved = await pd.use("transfer_leader")
        assert moved.ok, moved.stderr
        assert pd.cluster.regions[100]["leader"] == 6
        split = await pd.use("split_region")
        assert (split.ok, split.data["region"]) == (True, 100)
        pd.evict(4, 5)
        assert "No other store could lead" in (await pd.use("transfer_leader")).stderr
        told["flow_bytes"] = 1e3
        assert "PD reports no hot region" in (await pd.use("transfer_leader")).stderr


@pytest.mark.asyncio
async def test_a_leader_goes_to_nobody_who_could_not_keep_it() -> None:
    async with small_pd() as pd:
        spoils: dict[str, Callable[[], object]] = {
            "lags behind": lambda: pd.cluster.regions[100]["pending"].append(5),
            "being drained": lambda: pd.evict(5),
            "store-2 is Disconnected": lambda: pd.beat(5, age_s=1500.0),
            "store-2 is Down": lambda: pd.beat(5, age_s=7200.0),
            "would move the leader back": lambda: pd.cluster.document["schedulers"].update(
                {f"{GRANT_LEADER}-4": 0.0}
            ),
        }
        nowhere = await pd.use("transfer_leader", region=100, to="store-7")
        assert "has no replica on store-7" in nowhere.stderr
        pd.obedient = False
        for what, spoil in spoils.items():
            pd.fill()
            spoil()
            result = await pd.use("transfer_leader", region=100, to="store-2")
            assert what in result.stderr
            assert not result.ok
            assert pd.cluster.regions[100]["leader"] == 4
        assert not pd.operations.running


@pytest.mark.asyncio
async def test_a_region_that_is_busy_is_left_alone_until_it_is_stuck() -> None:
    async with small_pd() as pd:
        pd.obedient = False
        step = Step("transfer-leader", store=5)
        pd.operations.add("admin-transfer-leader", pd.cluster.regions[100], (step,), "admin")
        for name, arguments in {
            "transfer_leader": {"region": 100, "to": "store-3"},
            "transfer_peer": {"region": 100, "source": "store-2", "to": "7"},
            "split_region": {"region": 100},
            "merge_region": {"source": 101, "into": 100},
        }.items():
            result = await pd.use(name, **arguments)  # type: ignore[arg-type]
            assert "already has an operator (admin-transfer-leader" in result.stderr
        young = await pd.use("cancel_operator", region=100)
        assert "let it end" in young.stderr
        pd.operations.running[100].began = time.time() - 31.0
        done = await pd.use("cancel_operator")
        assert done.ok, done.stderr
        assert (done.data["changed"], done.data["region"]) == (True, 100)
        assert not pd.operations.running
        assert (await pd.use("cancel_operator", region=100)).data["changed"] is False
        assert (await pd.use("cancel_operator")).data["changed"] is False


@pytest.mark.asyncio
async def test_what_speaks_against_a_call_is_known_before_anybody_is_asked() -> None:
    async with small_pd() as pd:
        tools = {one.spec.name: one for one in tikv_tools(pd.settings)}
        well: dict[str, dict[str, Argument]] = {
            "transfer_leader": {"region": 100, "to": "store-2"},
            "drain_store": {"target": "store-1"},
            "restart_store": {"target": "store-1"},
            "split_region": {"region": 100},
            "pause_scheduler": {"name": BALANCE},
            "compact_store": {"target": "store-1"},
        }
        for name, arguments in well.items():
            tool = tools[name]
            assert isinstance(tool, Preparing)
            assert await tool.prepare(arguments) == Prepared(), name
        assert not pd.operations.records
        assert (pd.cluster.document["evicted"], pd.restarts, pd.commands) == ([], [], [])
        pd.beat(6, age_s=1500.0)
        for name in ("drain_store", "restart_store", "compact_store"):
            tool = tools[name]
            assert isinstance(tool, Preparing)
            (flaw,) = (await tool.prepare(well[name])).flaws
            assert "store-3 is Disconnected" in flaw


@pytest.mark.asyncio
async def test_a_copy_moves_only_while_all_others_are_sound_and_there_is_room() -> None:
    move: dict[str, Argument] = {"region": 102, "source": "store-3", "to": "store-7"}
    async with small_pd() as pd:
        pd.cluster.regions[102]["pending"] = [5]
        assert "is unhealthy" in (await pd.use("transfer_peer", **move)).stderr
        pd.cluster.regions[102]["pending"] = []
        pd.beat(7, free=0.1)
        assert "too little disk space" in (await pd.use("transfer_peer", **move)).stderr
        pd.beat(7)
        taken = await pd.use("transfer_peer", region=102, source="store-3", to="store-1")
        assert "has a replica on store-1 already" in taken.stderr
        result = await pd.use("transfer_peer", **move)
        assert result.ok, result.stderr
        assert sorted(sid for _, sid in pd.cluster.regions[102]["peers"]) == [4, 5, 7]
        assert result.undo is not None
        assert result.undo.arguments == {"region": 102, "source": "7", "to": "6"}


@pytest.mark.asyncio
async def test_a_region_is_split_and_merged_again() -> None:
    async with small_pd() as pd:
        split = await pd.use("split_region", region=101)
        assert split.ok, split.stderr
        assert len(pd.cluster.regions) == 7
        assert split.undo is not None
        assert split.undo.arguments["into"] == 101
        merged = await pd.use(split.undo.tool, **split.undo.arguments)
        assert merged.ok, merged.stderr
        assert len(pd.cluster.regions) == 6
        assert "not adjacent" in (await pd.use("merge_region", source=100, into=103)).stderr
        pd.cluster.regions[103]["size"] = 140
        assert "split again" in (await pd.use("merge_region", source=102, into=103)).stderr
        pd.obedient = False
        pd.timeout_s = 1.0
        alone = await pd.use("split_region", region=102)
        assert alone.category is FailureCategory.TIMEOUT


@pytest.mark.asyncio
async def test_one_store_at_a_time_is_drained() -> None:
    async with small_pd() as pd:
        result = await pd.use("drain_store", target="store-1")
        assert result.ok, result.stderr
        assert (result.data["leaders"], result.data["was"]) == (0, 2)
        assert not pd.cluster.led_by(4)
        second = await pd.use("drain_store", target="store-2")
        assert "store-1 is being drained, and one store at a time" in second.stderr
        assert pd.cluster.document["evicted"] == [4]
        assert (await pd.use("drain_store", target="store-1")).data["changed"] is False
        assert result.undo is not None
        back = await pd.use(result.undo.tool, **result.undo.arguments)
        assert back.ok, back.stderr
        assert pd.cluster.document["evicted"] == []
        assert EVICT not in pd.cluster.document["schedulers"]
        assert (await pd.use("undrain_store", target="store-1")).data == {"changed": False}
        pd.beat(6, age_s=1500.0)
        away = await pd.use("drain_store", target="store-1")
        assert "store-3 is Disconnected, and one store at a time" in away.stderr
        gone = await pd.use("drain_store", target="store-3")
        assert "already moves its leaders away" in gone.stderr


@pytest.mark.asyncio
async def test_a_drain_that_moves_nothing_is_taken_back() -> None:
    async with small_pd() as pd:
        pd.obedient = False
        pd.timeout_s = 6.0
        result = await pd.use("drain_store", target="store-1")
        assert result.category is FailureCategory.TIMEOUT
        assert pd.cluster.document["evicted"] == []
        pd.cluster.document["schedulers"][EVICT] = time.time() + 60.0
        paused = await pd.use("drain_store", target="store-1")
        assert "is paused" in paused.stderr


@pytest.mark.asyncio
async def test_schedulers_rest_go_on_come_back_and_go() -> None:
    async with small_pd() as pd:
        names = pd.cluster.document["schedulers"]
        result = await pd.use("pause_scheduler", name=BALANCE, seconds=60)
        assert result.ok, result.stderr
        assert names[BALANCE] > time.time() + 50
        assert result.undo is not None
        assert (await pd.use(result.undo.tool, **result.undo.arguments)).ok
        assert names[BALANCE] == 0.0
        assert (await pd.use("resume_scheduler", name=BALANCE)).data["changed"] is False
        del names[BALANCE]
        added = await pd.use("add_scheduler", name=BALANCE)
        assert added.ok, added.stderr
        assert BALANCE in names
        assert "pause_scheduler" in (await pd.use("remove_scheduler", name=BALANCE)).stderr
        assert (
            "not a temporary scheduler"
            in (await pd.use("remove_scheduler", name="a-scheduler")).stderr
        )
        assert EVICT in STRAY
        assert (await pd.use("remove_scheduler", name=f"{EVICT}-4")).data["changed"] is False
        pd.evict(4, 5)
        assert "undrain_store" in (await pd.use("pause_scheduler", name=EVICT)).stderr
        removed = await pd.use("remove_scheduler", name=f"{EVICT}-4")
        assert removed.ok, removed.stderr
        assert pd.cluster.document["evicted"] == [5]


@pytest.mark.asyncio
async def test_a_store_that_serves_is_drained_before_its_restart_and_leads_after_it() -> None:
    async with small_pd() as pd:
        result = await pd.use("restart_store", target="store-1")
        assert result.ok, result.stderr
        assert (pd.restarts, result.data["drained"]) == (["store-1"], True)
        assert pd.cluster.document["evicted"] == []
        assert any("evict-leader" in text for _, text in pd.operations.records)
        pd.beat(5, age_s=1500.0)
        refused = await pd.use("restart_store", target="store-1")
        assert "store-2 is Disconnected, and one store at a time" in refused.stderr
        assert pd.restarts == ["store-1"]
        dead = await pd.use("restart_store", target="store-2")
        assert dead.ok, dead.stderr
        assert dead.data["drained"] is False
        pd.cluster.stores["6"]["state"] = 1
        assert "is being decommissioned" in (await pd.use("restart_store", target="store-3")).stderr
        alone = await pd.use("restart_pd", target="pd-1")
        assert "lose its majority" in alone.stderr


@pytest.mark.asyncio
async def test_a_new_leader_of_pd_is_given_the_time_to_hear_of_stores_that_answer() -> None:
    async with small_pd() as pd:
        hearsay = {"at": time.time() - 7200.0, "start": 1.0}
        pd.cluster.beats["4"] = hearsay
        asyncio.get_running_loop().call_later(0.3, pd.beat, 4)
        result = await pd.use("drain_store", target="store-2")
        assert result.ok, result.stderr
        assert (await pd.use("undrain_store", target="store-2")).ok
        # Nobody waits for one that does not answer: it is away, and can be started again.
        pd.cluster.beats["5"] = hearsay
        refused = await pd.use("restart_store", target="store-1")
        assert "has had no heartbeat of store-2, and one store at a time" in refused.stderr
        result = await pd.use("restart_store", target="store-2")
        assert result.ok, result.stderr
        assert pd.restarts == ["store-2"]


@pytest.mark.asyncio
async def test_commands_run_where_they_belong() -> None:
    async with small_pd() as pd:
        pd.lives = False
        nobody = await pd.use("restart_store", target="store-1")
        assert nobody.category is FailureCategory.PERMISSION
        assert pd.cluster.document["evicted"] == []  # what was begun is taken back
        pd.options = {"restart_by": "systemd"}
        result = await pd.use("restart_store", target="store-1")
        assert result.ok, result.stderr
        assert pd.commands == [
            ("store-1", "systemctl", "restart", "--", "tikv-20160.service"),
        ]
        pd.commands.clear()
        compacted = await pd.use("compact_store", target="store-1")
        assert compacted.ok, compacted.stderr
        (words,) = pd.commands
        assert " ".join(words) == (
            "store-1 tikv-ctl --host 10.0.0.4:20160 compact --db kv --cf write"
        )
        pd.says = Result(Outcome.RAN, exit_code=1, stderr="a\ncannot connect")
        failed = await pd.use("compact_store", target="store-1")
        assert "cannot connect" in failed.stderr
        pd.beat(4, free=0.05)
        assert "Free some space" in (await pd.use("compact_store", target="store-1")).stderr
        pd.beat(5, age_s=1500.0)
        pd.beat(4)
        assert "one store at a time" in (await pd.use("compact_store", target="store-1")).stderr
        assert not isinstance(pd, Placing)
        gone = Command(("true",))
        assert (await run(pd.settings, gone, Job())).stderr == "a\ncannot connect"
        assert last_words(Result(Outcome.RAN, exit_code=3)) == "exit code 3"


@pytest.mark.asyncio
async def test_a_store_that_nobody_listed_is_where_pd_says() -> None:
    async with small_pd() as pd:
        pd.lives, pd.options = False, {"restart_by": "tiup", "tiup_cluster": "shop"}
        pd.beat(7, age_s=1500.0)
        pd.says = Result(Outcome.RAN, exit_code=1, stderr="no such cluster")
        assert "no such cluster" in (await pd.use("restart_store", target="store-7")).stderr
        words = ("", "tiup", "cluster", "restart", "shop", "--node", "10.0.0.7:20160", "--yes")
        assert pd.commands == [words]
        pd.beat(7)
        pd.says = Result(Outcome.RAN, exit_code=0)
        assert (await pd.use("compact_store", target="7")).ok
        assert pd.commands[1][:3] == ("", "tikv-ctl", "--host")


def test_who_restarts_a_part_is_an_option() -> None:
    store = Target("store-1", "store", host="db1", port=20160)
    boxed = Target("tikv0", "store", host="db1", port=20160, runs_at="docker://lab-tikv0-1")
    member = Target("pd-1", "pd", host="db1", port=2379)
    tiup = Options(restart_by="tiup", tiup_cluster="shop")
    assert restart_command(store, tiup) == Command(
        ("tiup", "cluster", "restart", "shop", "--node", "db1:20160", "--yes")
    )
    assert restart_command(boxed, Options()) == Command(
        ("docker", "restart", "--time", "30", "lab-tikv0-1")
    )
    by_unit = restart_command(member, Options(restart_by="systemd", pd_unit="pd@{target}"))
    assert by_unit == Command(("systemctl", "restart", "--", "pd@pd-1.service"), "pd-1")
    for options in (Options(), Options(restart_by="docker"), Options(restart_by="tiup")):
        assert "set " in str(restart_command(store, options))


@pytest.mark.asyncio
async def test_without_pd_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "PATIENCE_S", 0.0)
    pd = SmallPd(port=1)
    for spec in SPECS:
        arguments: dict[str, Argument] = {}
        for one in spec.parameters:
            values: dict[str, Argument] = {"region": 100, "source": "4", "to": "5", "into": 101}
            arguments[one.name] = values.get(one.name, "store-1")
        if spec.name == "merge_region":
            arguments["source"] = 100
        arguments |= {"name": BALANCE} if "name" in arguments else {}
        arguments |= {"policy": "scan"} if "policy" in arguments else {}
        arguments |= {"cf": "write"} if "cf" in arguments else {}
        arguments |= {"seconds": 5} if "seconds" in arguments else {}
        if spec.name in ("restart_pd", "rotate_log"):
            continue
        result = await pd.use(spec.name, **arguments)
        assert (spec.name, result.ok, result.stderr) == (spec.name, False, NO_PD)
    assert (pd.restarts, pd.commands) == ([], [])


def test_a_region_is_read_as_pd_tells_it() -> None:
    peers = [
        {"id": 1, "store_id": 4, "role_name": "Voter"},
        {"id": 2, "store_id": 5, "role_name": "Learner", "is_learner": True},
        {"id": 3, "store_id": 6, "role_name": "Voter"},
    ]
    body = {
        "id": 9,
        "start_key": "01",
        "end_key": "02",
        "epoch": {"conf_ver": 1, "version": 3},
        "peers": peers,
        "leader": peers[0],
        "down_peers": [{"down_seconds": 30, "peer": peers[2]}],
        "pending_peers": [peers[1]],
    }
    region = region_from(body)
    assert region is not None
    assert region.peers == (Peer(4), Peer(5, voter=False, pending=True), Peer(6, down=True))
    assert (region.leader, region.version, region.unsound(but=6)) == (4, 3, (5,))
    beside = Region(10, "02", "", 1, (), 0)
    assert region.touches(beside)
    assert not Region(1, "", "01", 1, (), 0).touches(beside)
    nothing: list[object] = [None, {}, [], {"id": "9"}]
    assert [region_from(one) for one in nothing] == [None] * 4


def test_what_does_not_speak_as_pd_does_is_nobody_to_act_on() -> None:
    assert live_from((), stores=[], operators=[], schedulers=[]) is None
    assert live_from((), stores={"stores": []}, operators="", schedulers=[]) is None
    named = [f"{EVICT}-3", f"{GRANT_LEADER}-4"]
    old = live_from((), stores={"stores": []}, operators=None, schedulers=named)
    assert isinstance(old, Live)
    assert (set(old.evicting), set(old.granting), UP) == ({3}, {4}, "Up")
    assert BALANCE in DEFAULTS
    done = Done("It is done.", {})
    assert (done.undo, str(RefusedCall("No."))) == (None, "No.")
    assert PdCall.__doc__
