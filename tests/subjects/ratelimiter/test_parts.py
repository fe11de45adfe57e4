"""The parts of the rate limiter's plug-in: protocol, sums over all nodes, causes, tools."""

from __future__ import annotations

import inspect
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from operator_protocols.domain.action import Argument
from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Access, Process, Target
from operator_protocols.domain.verdict import Risk
from operator_protocols.kit.access import addresses_of, authority, authorize, sentence_of
from operator_protocols.kit.resp import ErrorReply, ProtocolError, Reply, Wire, open_wire
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.executor.tools.script import ExecuteScript
from operator_sre.plugins import find_plugin
from operator_sre.subjects.ratelimiter.faults import FAULTS, primary_of
from operator_sre.subjects.ratelimiter.nodes import (
    KeyTally,
    NodeReport,
    TalkError,
    api,
    in_path,
    observe_node,
    unreachable,
)
from operator_sre.subjects.ratelimiter.rig import NODES, SENTINELS, rig, server_path
from operator_sre.subjects.ratelimiter.stores import (
    SETTINGS,
    Sample,
    StoreReport,
    command,
    configured_of,
    observe_store,
    password_of,
    role_of,
    store_readings,
)
from operator_sre.subjects.ratelimiter.tools import KNOWLEDGE
from operator_sre.subjects.ratelimiter.totals import (
    COMMON,
    alone_of,
    common_of,
    counted_by,
    differences,
    drift_of,
    ghosts_of,
    hot_key_of,
    limits_of,
    over_limit_of,
    primary_among,
    settings_of,
)
from tests.contract.servers import floods, hangs, http, says, serving, unused_port

NOW_US = 1_000_000_000
COMMON_READINGS: dict[str, Value] = {
    "default_limit": 10,
    "window_s": 20.0,
    "key_prefix": "r",
    "on_store_loss": "fail_open",
}


def _node(name: str, tally: dict[str, KeyTally] | None, **more: Value) -> NodeReport:
    readings: dict[str, Value] = {"kind": "node", "reachable": True}
    readings |= {"process": f"p-{name}", "uptime_s": 99.0}
    seen = Seen(name, {**readings, **COMMON_READINGS, **more})
    asked = sum(row.requests for row in (tally or {}).values())
    return NodeReport(seen, name, tally, asked, complete=True)


def _store(counts: dict[str, int], **more: object) -> StoreReport:
    look = StoreReport(Seen("store", {"kind": "store"}), NOW_US, counts=counts, counted=True)
    return replace(look, **more)  # type: ignore[arg-type]


def _allowed(count: int, *, uncounted: int = 0, limit: int | None = 10) -> KeyTally:
    return KeyTally(count, count, uncounted, limit)


def test_what_most_nodes_have_is_common_and_a_draw_is_nobodys() -> None:
    one, two = _node("a", {}), _node("b", {}, default_limit=99)
    assert common_of([one, one, two])["default_limit"] == 10
    assert "default_limit" not in common_of([one, two])
    assert set(common_of([one])) == set(COMMON)
    odd = differences(two, common_of([one, one, two]), 3)
    assert (odd["differs_default_limit"], odd["common_default_limit"]) == (True, 10)
    assert (odd["differs_window_s"], odd["differs"]) == (False, True)
    assert differences(one, common_of([one]), 1) == {}


def test_who_alone_lost_a_store_that_is_well_has_lost_the_way_to_it() -> None:
    lost, fine = _node("a", {}, store_connected=False), _node("b", {}, store_connected=True)
    well = replace(_store({}), seen=Seen("store", {"refuses_writes": False}))
    sick = replace(_store({}), seen=Seen("store", {"refuses_writes": True}))
    assert alone_of(lost, [lost, fine], well) == {"alone_without_store": True}
    assert alone_of(lost, [lost, fine], sick) == {"alone_without_store": False}
    assert alone_of(lost, [lost, fine], None) == {"alone_without_store": False}
    assert alone_of(lost, [lost, lost], well) == {"alone_without_store": False}
    assert alone_of(fine, [lost, fine], well) == {}


def test_counts_of_nodes_add_up_and_a_mute_one_makes_them_unknown() -> None:
    one, two = _node("a", {"k": _allowed(5, uncounted=1)}), _node("b", {"k": _allowed(2)})
    assert counted_by([one, two]) == {"k": 6}
    assert counted_by([one, _node("c", None)]) is None
    # Who lists only some keys may have counted this one as well.
    assert counted_by([one, replace(two, tally={}, complete=False)]) == {}


@pytest.mark.parametrize(
    ("stored", "members", "drift"),
    [
        (6, (), 0),
        (11, (), 0),  # five may be on their way
        (12, (("a:p-a:1", NOW_US),) * 12, 6),
        (0, (), 6),
        # Six came from a node that is gone, or from the process that a node was before.
        (12, (*(("a:p-a:1", NOW_US),) * 6, *(("gone:x:1", NOW_US),) * 6), 0),
        (12, (*(("a:p-a:1", NOW_US),) * 6, *(("a:old:1", NOW_US - 100_000_000),) * 6), 0),
        # Somebody pretends to be a node that has run for longer than that.
        (12, (*(("a:p-a:1", NOW_US),) * 6, *(("a:other:1", NOW_US),) * 6), 6),
        (12, (*(("a:p-a:1", NOW_US),) * 6, *(("nobody:x:1", NOW_US),) * 6), 6),
    ],
)
def test_drift_is_what_no_node_explains(
    stored: int, members: tuple[tuple[str, int], ...], drift: int
) -> None:
    nodes = [
        _node("a", {"k": _allowed(6)}),
        NodeReport(Seen("gone", {"kind": "node", "reachable": False})),
    ]
    look = _store({"k": stored}, members={"k": members})
    found = drift_of(look, nodes, counted_by(nodes))
    assert (found["drift"], found["drifted"]) == (drift, drift > 0)
    assert drift_of(look, nodes, None) == {}


def test_a_ghost_is_what_all_nodes_together_allowed_beyond_the_limit() -> None:
    common = dict(COMMON_READINGS)
    one, two = _node("a", {"k": _allowed(6)}), _node("b", {"k": _allowed(5)})
    found, culprits = ghosts_of([one, two], None, common)
    assert (found["ghost_allowed"], found["ghost_key"], culprits) == (1, "k", frozenset())
    # Without the store: whoever did not count is to blame.
    open_ = _node("b", {"k": _allowed(5, uncounted=5, limit=None)})
    assert ghosts_of([one, open_], None, common)[1] == {"b"}
    # A limit that was lowered a moment ago makes no ghosts of what came before it.
    lowered = _store({}, limits={"k": "3"})
    assert ghosts_of([_node("a", {"k": _allowed(6)})], lowered, common)[0]["ghost_allowed"] == 0
    elsewhere = _node("b", {"k": _allowed(5, limit=10)}, key_prefix="other")
    tight = _node("a", {"k": _allowed(3, limit=3)})
    found, culprits = ghosts_of([tight, elsewhere], lowered, common)
    assert (found["ghost_allowed"], found["ghost_limit"]) == (5, 3)
    assert culprits == {"b"}
    assert ghosts_of([], None, common) == ({}, frozenset())


def test_over_limit_hot_key_and_odd_limits() -> None:
    look = _store({"a": 11, "b": 10, "c": 4}, limits={"c": "3"}, declared={"c": "3"})
    found = over_limit_of(look, COMMON_READINGS)
    assert (found["over_limit_keys"], found["over_limit_limit"]) == (2, 3)
    assert over_limit_of(look, {}) == {}
    assert limits_of(look)["limits_strange"] == 0
    odd = limits_of(replace(look, limits={"c": "9"}))
    assert (odd["limit_strange_key"], odd["limit_declared"]) == ("c", 3)
    rows = {"a": KeyTally(60, 1, 0, 10), "b": KeyTally(50, 1, 0, 10)}
    assert hot_key_of([_node("a", rows)]) == {"hot_key": "a", "hot_key_share": 0.545}
    few = {"a": KeyTally(60, 1, 0, 10)}
    assert hot_key_of([_node("a", few)])["hot_key_share"] == 0.0


def test_the_primary_in_use_is_the_one_that_nodes_and_sentinels_name() -> None:
    stores = [StoreReport(Seen(name, {"role": "primary"})) for name in ("store", "replica")]
    places = {"store": "h:1", "replica": "h:2"}
    node = _node("a", {}, store_address="h:2/0")
    assert primary_among(stores, places, [node], []) == "replica"
    assert primary_among(stores[:1], places, [node], []) == "store"
    assert primary_among(stores, places, [], []) == ""
    sentinel = StoreReport(Seen("sentinel-1", {"primary": "h:1"}))
    assert primary_among(stores, places, [], [sentinel]) == "store"


def test_two_stores_that_are_configured_differently_name_what_and_how() -> None:
    one = StoreReport(Seen("a", {"setting_maxmemory": "1", "setting_appendonly": "yes"}))
    two = StoreReport(Seen("b", {"setting_maxmemory": "9", "setting_appendonly": "yes"}))
    assert "maxmemory" in SETTINGS
    assert settings_of(one, [two]) == {
        "settings_differ": True,
        "differs_setting": "maxmemory",
        "differs_value": "1",
        "common_value": "9",
        "common_maxmemory": "9",
    }
    assert settings_of(one, [one])["settings_differ"] is False
    assert settings_of(one, []) == {}


INFO = "# Server\r\nrole:master\r\nused_memory:50\r\nmaxmemory:0\r\n"


@pytest.mark.parametrize(
    ("more", "config", "kind"),
    [
        ("", [], ""),
        ("maxmemory:40\r\n", ["maxmemory-policy", "noeviction"], "memory"),
        ("maxmemory:40\r\n", ["maxmemory-policy", "allkeys-lru"], ""),
        ("paused_actions:write\r\n", [], "paused"),
        ("min_slaves_good_slaves:1\r\n", ["min-replicas-to-write", "2"], "replicas"),
        ("aof_last_write_status:err\r\n", [], "disk"),
        ("role:slave\r\naof_last_write_status:err\r\n", [], ""),
    ],
)
def test_why_a_store_takes_no_writes(more: str, config: list[str], kind: str) -> None:
    found = store_readings(INFO + more, ["master"], list(config))
    assert (found["refuses_kind"], found["refuses_writes"]) == (kind, bool(kind))
    assert store_readings(ErrorReply("NOPERM"), None, None) == {}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("said", "word"),
    [
        (b"?what\r\n", "what"),
        (b"$99999999\r\n", "bytes"),
        (b"*99999999\r\n", "array of 99999999"),
        (b":x\r\n", "number"),
        (b"*1\r\n" * 9 + b":1\r\n", "array of 1"),
        (b"+half", "half"),
    ],
)
async def test_an_answer_that_is_none_is_told_from_a_lost_connection(
    said: bytes, word: str
) -> None:
    async with (
        serving(says(said)) as port,
        open_wire(Target("s", "store", port=port), connect_s=2.0) as (wire, _, _),
    ):
        assert isinstance(wire, Wire)
        with pytest.raises(ProtocolError, match=word):
            await wire.ask("PING")


@pytest.mark.asyncio
async def test_further_addresses_are_tried_when_the_first_does_not_answer() -> None:
    well = {"status": "up", "store_connected": True, "name": "n"}
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(serving(http(200, well)))
        store = await stack.enter_async_context(serving(says(b"+PONG\r\n")))
        dead = stack.enter_context(unused_port())
        target = Target("n", "node", port=dead, endpoints=(f"127.0.0.1:{node}",))
        assert addresses_of(target) == [("127.0.0.1", dead), ("127.0.0.1", node)]
        look = await observe_node(target, timeout_s=2.0, secret=str)
        assert look.answers
        other = Target("s", "store", port=dead, endpoints=(f"127.0.0.1:{store}",))
        found = await observe_store(other, Sample("r", 1.0), timeout_s=2.0, secret=str)
        assert found.reading("reachable") is True


@pytest.mark.asyncio
async def test_whoever_does_not_do_what_it_is_asked_is_one_error() -> None:
    async with AsyncExitStack() as stack:
        silent = await stack.enter_async_context(serving(hangs))
        wild = await stack.enter_async_context(serving(floods(b"x")))
        refuses = await stack.enter_async_context(serving(says(b"-OOM no memory\r\n")))
        angry = await stack.enter_async_context(serving(http(503, {"detail": "no store"})))
        for port, word, timeout_s in (
            (silent, "within", 0.5),
            (wild, "an invalid answer", 60.0),
            (refuses, "OOM no memory", 60.0),
        ):
            target = Target("s", "store", port=port)
            with pytest.raises(TalkError, match=word):
                await command(target, [("PING",)], secret=str, timeout_s=timeout_s)
        with pytest.raises(TalkError, match="503: no store"):
            await api(Target("n", "node", port=angry), "GET", "/nodes", secret=str)
        assert await role_of(Target("s", "store", port=refuses), secret=str) == ""
    assert in_path("a/b ?") == "a%2Fb%20%3F"


def test_secrets_come_from_files_and_go_into_headers_only() -> None:
    files = {"/pw": "open", "/token": "t0ken"}
    me = Access(user="me", password_file="/pw")
    basic = Target("n", "node", port=1, access=me)
    assert authorize(me, files.__getitem__) == {"authorization": "Basic bWU6b3Blbg=="}
    bearer = Access(tls=True, token_file="/token")
    assert authorize(bearer, files.__getitem__) == {"authorization": "Bearer t0ken"}
    assert authority(("::1", 1)) == "[::1]:1"
    assert password_of(basic, files.__getitem__) == "open"
    assert password_of(Target("s", "store"), files.__getitem__) == ""
    assert unreachable("node", basic, sentence_of(ConnectionRefusedError())).readings["error"] == (
        "127.0.0.1:1: connection refused"
    )


def test_causes_speak_of_the_world_and_their_remedies_are_tools() -> None:
    plugin = find_plugin("ratelimiter")
    assert plugin.tools is not None
    settings = SubjectSettings("shop", list, SystemClock(), 1.0, {})
    tools = {tool.spec.name: tool.spec for tool in plugin.tools(settings)}
    invariants = {one.name for one in plugin.subject(settings).invariants}
    kinds = {one.kind for one in rig().processes}
    for cause in KNOWLEDGE.causes:
        assert set(cause.breaks) <= invariants
        assert set(cause.kinds) <= kinds
        for remedy in cause.remedies:
            boxed = remedy.tool == ExecuteScript.spec.name
            spec = ExecuteScript.spec if boxed else tools[remedy.tool]
            # A script is one way, where there is a sandbox; a tool of its own ends it anywhere.
            assert boxed or remedy.risk is spec.risk
            assert cause.name in (tools[cause.remedies[-1].tool] if boxed else spec).ends
            names = {one.name for one in spec.parameters}
            assert set(remedy.arguments or {"target": ""}) <= names
    ended = {name for spec in tools.values() for name in spec.ends}
    assert ended <= {cause.name for cause in KNOWLEDGE.causes}
    for spec in tools.values():
        assert spec.undo == "" or spec.undo in tools
        assert spec.expected
        assert spec.verify
    assert tools["follow_primary"].risk is tools["fail_over"].risk is Risk.HIGH
    # A store is started only where its processes can be.
    assert KNOWLEDGE.tools.keys() - tools.keys() == {"start_as_replica"}


class _NoLife:
    """Processes that nobody can start."""

    async def kill(self, target: str) -> None:
        raise AssertionError(target)

    async def restart(self, target: str) -> Process:
        raise AssertionError(target)


@pytest.mark.asyncio
async def test_a_limiter_without_parts_refuses_every_tool_in_a_sentence() -> None:
    plugin = find_plugin("ratelimiter")
    assert plugin.tools is not None
    settings = SubjectSettings("shop", list, SystemClock(), 1.0, {}, life=_NoLife())
    assert {tool.spec.name for tool in plugin.tools(settings)} == KNOWLEDGE.tools.keys()
    fitting: dict[str, Argument] = {"setting": "maxmemory", "limit": 1, "key": "a", "value": "1"}
    for tool in plugin.tools(settings):
        needed = [one.name for one in tool.spec.parameters if one.required]
        result = await tool.call({name: fitting.get(name, "x") for name in needed}, Job("job"))
        assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1), tool.spec.name


def test_every_fault_breaks_something_that_exists_and_no_process_tells_of_it() -> None:
    plugin = find_plugin("ratelimiter")
    settings = SubjectSettings("shop", list, SystemClock(), 1.0, {})
    invariants = {one.name for one in plugin.subject(settings).invariants}
    faults = {fault.name: fault for fault in FAULTS}
    assert len(faults) == len(FAULTS)
    of_nodes = {"nodes_kill", "node_limits", "node_config", "ghost_allowing", "wrong_password"}
    of_stores = {
        *("limit_drift", "hot_key", "store_out_of_memory", "store_read_only", "store_blocked"),
        *("replica_promoted", "counter_drift", "keys_without_ttl"),
    }
    assert of_nodes | of_stores <= faults.keys()
    assert {faults[name].kind for name in of_nodes} == {"node"}
    assert {faults[name].kind for name in of_stores} <= {"store", "replica"}
    assert len({faults[name].inject for name in of_nodes | of_stores}) == 13
    assert inspect.iscoroutinefunction(primary_of)
    for fault in FAULTS:
        assert set(fault.breaks) <= invariants, fault.name
    spec = rig()
    assert {one.name for one in spec.processes} == {"store", "replica", *NODES, *SENTINELS}
    assert all("PASSWORD" not in text for one in spec.processes for text in one.files.values())
    assert server_path() in spec.processes[0].argv
    assert "escalate" in KNOWLEDGE.notes


def test_settings_and_accounts_of_a_store_are_told_without_secrets() -> None:
    settings: list[Reply] = ["maxmemory", "0", "requirepass", "hunter2"]
    found = configured_of(settings, ["user default on sanitize-payload #ab12 ~* &* +@all"])
    assert found is not None
    assert found["setting maxmemory"] == "0"
    assert found["account default"].startswith("on sanitize-payload (secret ")
    assert "hunter2" not in str(found)
    assert "ab12" not in str(found)
    assert configured_of(ErrorReply("NOPERM"), None) is None
