"""Looking at a rate limiter whose parts misbehave, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.codec import from_json, to_json
from operator_sre.plugins import find_plugin
from operator_sre.subjects.ratelimiter.subject import RateLimiter
from tests.contract.servers import (
    Behave,
    Crowd,
    closes,
    drips,
    floods,
    hangs,
    http,
    resets,
    says,
    serving,
    until,
    unused_port,
)
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

# For those that never answer. Who does answer must be heard, also on a busy machine.
TIMEOUT_S = 0.4
PATIENT_S = 60.0
LOOK_UP_S = 5.0  # a server of names may be out of reach
WELL = {
    "name": "node-1",
    "status": "up",
    "store_connected": True,
    "store_error": None,
    "uptime_s": 1.5,
    "p99_check_ms": None,
}
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def _subject(targets: Sequence[Target], timeout_s: float = PATIENT_S) -> RateLimiter:
    settings = SubjectSettings("shop", lambda: targets, SystemClock(), timeout_s, {})
    return RateLimiter(settings)


async def _look(*targets: Target, timeout_s: float = PATIENT_S) -> Observation:
    return await _subject(targets, timeout_s).observe()


async def _node(behave: Behave, timeout_s: float = PATIENT_S) -> Seen:
    async with serving(behave) as port:
        target = Target("node-1", "node", port=port)
        return (await _look(target, timeout_s=timeout_s)).of("node-1")


async def _store(behave: Behave) -> Seen:
    async with serving(behave) as port:
        timeout_s = TIMEOUT_S if behave is hangs else PATIENT_S
        return (await _look(Target("store", "store", port=port), timeout_s=timeout_s)).of("store")


async def test_a_node_that_is_well_is_seen_with_its_readings() -> None:
    seen = await _node(http(200, {**WELL, "secret": "hunter2"}))
    assert seen.problem == ""
    assert seen.readings == {
        "kind": "node",
        "reachable": True,
        "store_problem": "",
        **{name: value for name, value in WELL.items() if name != "name"},
    }


UNREACHABLE: list[tuple[str, Behave, str]] = [
    ("hangs", hangs, "in time"),
    ("closes", closes, ""),
    ("resets", resets, ""),
    ("drips its head", drips(b"HTTP/1.1 200 OK\r\n", every_s=0.05), "in time"),
    ("drips its body", drips(OK + b"content-length: 9999\r\n\r\n", every_s=0.05), "in time"),
    ("garbage", says(b"\x00\xff\xfegarbage\r\n\r\n"), ""),
    ("half an answer", says(OK + b"content-length: 100\r\n\r\n{"), ""),
    ("another server", http(404, b"nothing here"), "not from a rate limiter node"),
]


@pytest.mark.parametrize(("behave", "word"), [one[1:] for one in UNREACHABLE], ids=lambda _: "")
async def test_a_node_that_does_not_answer_is_seen_as_unreachable(
    behave: Behave, word: str
) -> None:
    seen = await _node(behave, TIMEOUT_S if word == "in time" else PATIENT_S)
    assert (seen.readings["kind"], seen.readings["reachable"]) == ("node", False)
    assert "127.0.0.1:" in str(seen.readings["error"])
    assert word in str(seen.readings["error"])
    assert seen.problem == ""


async def test_a_port_that_refuses_is_seen_as_unreachable() -> None:
    with unused_port() as port:
        observation = await _look(
            Target("node-1", "node", port=port), Target("store", "store", port=port)
        )
    assert len(observation.seen) == 2
    for seen in observation.seen:
        assert seen.readings["reachable"] is False
        assert seen.readings["error"] == f"127.0.0.1:{port}: connection refused"


STRANGE: list[tuple[str, Behave]] = [
    ("500", http(500, {"status": "up", "store_connected": True})),
    ("a redirect", http(302, b"", headers="location: http://127.0.0.1:1/\r\n")),
    ("not JSON", http(200, b"<html>")),
    ("nothing", http(200, b"")),
    ("bytes that are no text", http(200, b"\xff\xfe\xfd")),
    ("a list", http(200, [1, 2])),
    ("null", http(200, None)),
    ("a number", http(200, 7)),
    ("an empty object", http(200, {})),
    ("no status", http(200, {"store_connected": True})),
    ("no word of the store", http(200, {"status": "up"})),
    ("a status of another type", http(200, {**WELL, "status": {"is": "up"}})),
    ("a truth that is a text", http(200, {**WELL, "store_connected": "true"})),
    ("false gzip", http(200, b"no gzip", headers="content-encoding: gzip\r\n")),
    ("nested without an end", http(200, b"[" * 60_000)),
    ("an answer without an end", floods(OK + b"\r\n")),
]


@pytest.mark.parametrize("behave", [one[1] for one in STRANGE], ids=[one[0] for one in STRANGE])
async def test_a_node_that_answers_strangely_is_a_problem_and_not_well(behave: Behave) -> None:
    seen = await _node(behave)
    assert seen.problem
    observation = Observation("shop", SystemClock().now(), (seen,))
    healths = {
        finding.health
        for invariant in _subject([]).invariants
        for finding in invariant.check(observation)
    }
    assert healths == {Health.UNKNOWN}


async def test_whatever_a_node_says_can_be_stored_and_read_again() -> None:
    odd = {**WELL, "store_error": {"a": [1]}, "uptime_s": [1], "p99_check_ms": "\ud800"}
    async with serving(http(200, odd)) as port:
        observation = await _look(Target("node-1", "node", port=port))
    assert observation.of("node-1").readings["p99_check_ms"] == "\ud800"
    assert "uptime_s" not in observation.of("node-1").readings
    assert from_json(Observation, to_json(observation)) == observation


STORES: list[tuple[str, Behave, bool | None]] = [
    ("well", says(b"+PONG\r\n"), True),
    ("wants a password", says(b"-NOAUTH Authentication required.\r\n"), None),
    ("loading", says(b"-LOADING Redis is loading\r\n"), True),
    ("hangs", hangs, False),
    ("resets", resets, False),
    ("is something else", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), None),
    ("is full", says(b"-ERR max number of clients reached\r\n"), None),
    ("a line without an end", floods(b"x"), None),
    ("bytes that are no text", says(b"\xff\x00"), None),
]


@pytest.mark.parametrize(
    ("behave", "reachable"), [one[1:] for one in STORES], ids=[one[0] for one in STORES]
)
async def test_a_store_is_seen_as_it_is(behave: Behave, reachable: bool | None) -> None:
    seen = await _store(behave)
    assert seen.readings["kind"] == "store"
    if reachable is None:
        assert seen.problem
        assert "reachable" not in seen.readings
    else:
        assert seen.problem == ""
        assert seen.readings["reachable"] is reachable


async def test_a_store_that_hangs_up_is_not_well() -> None:
    """Whether the kernel says so with an end or with a reset is up to the kernel."""
    seen = await _store(closes)
    assert seen.problem or seen.readings["reachable"] is False


async def test_nobody_delays_or_blinds_the_others() -> None:
    crowd, together = Crowd(), asyncio.Event()
    behaviours = [
        *(until(together, one[1]) for one in UNREACHABLE),
        *(until(together, one[1]) for one in STRANGE),
        *(until(together, crowd.behave) for _ in range(9)),
        http(200, WELL),
    ]
    async with AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(serving(behave)) for behave in behaviours]
        store = await stack.enter_async_context(serving(until(together, hangs)))
        targets = [Target(f"node-{at}", "node", port=port) for at, port in enumerate(ports)]
        last = Target("store", "store", port=store)
        looking = asyncio.create_task(_look(*targets, last))
        # Nodes that say nothing are waited for together; then they hang up.
        await eventually(lambda: crowd.most == 9, within_s=PATIENT_S / 2)
        together.set()
        observation = await looking
    assert [seen.target for seen in observation.seen] == [*(one.name for one in targets), "store"]
    assert observation.of(targets[-1].name).readings["status"] == "up"
    assert observation.problem == ""


@pytest.mark.parametrize("kind", ["node", "store"])
async def test_a_target_without_a_port_does_not_blind_us(kind: str) -> None:
    async with serving(http(200, WELL)) as port:
        observation = await _look(Target("portless", kind), Target("node-1", "node", port=port))
    assert (
        observation.of("portless").problem or not observation.of("portless").readings["reachable"]
    )
    assert observation.of("node-1").readings["status"] == "up"


@pytest.mark.parametrize("host", ["no such host", "256.1.1.1", ""])
async def test_a_host_that_makes_no_sense_does_not_blind_us(host: str) -> None:
    async with serving(http(200, WELL)) as port:
        observation = await _look(
            Target("odd", "node", host=host, port=1),
            Target("odd-store", "store", host=host, port=1),
            Target("node-1", "node", port=port),
            timeout_s=LOOK_UP_S,
        )
    assert observation.of("odd") != Seen("odd")
    assert observation.of("node-1").readings["status"] == "up"


async def test_a_target_of_a_kind_that_is_not_known_is_a_problem() -> None:
    observation = await _look(Target("cache", "nodes", port=1))
    assert "nodes" in observation.of("cache").problem
    assert [seen.target for seen in observation.seen] == ["cache"]


async def test_nothing_to_look_at_is_not_health() -> None:
    with pytest.raises(ObservationError, match="'shop'"):
        await _look()


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert (await _node(http(200, WELL))).readings["status"] == "up"


async def test_the_plug_in_builds_this_subject() -> None:
    plugin = find_plugin("ratelimiter")
    settings = SubjectSettings("shop", list, SystemClock(), TIMEOUT_S, {})
    subject = plugin.subject(settings)
    assert subject.name == "shop"
    assert {invariant.name for invariant in subject.invariants} >= {
        *("node_down", "redis_disconnected", "high_latency"),
        *("counter_drift", "ghost_allowing", "over_limit"),
    }
    names = [fault.name for fault in plugin.faults]
    assert len(set(names)) == len(names)
    assert {"node_kill", "latency", "disk_pressure", "network_partition"} <= set(names)
