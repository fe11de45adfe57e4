"""Managers see counters, and set limits and blocks that every node enforces."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.services.conftest import NodeProcess, Rig, StoreServer

CONFIGURATION = ("nodes", "limits", "limits-declared", "blocks")


def test_a_limit_set_on_one_node_is_enforced_by_all(trio: list[NodeProcess], key: str) -> None:
    answer = trio[0].http.put(f"/limits/{key}", json={"limit": 3})
    assert answer.json() == {"key": key, "limit": 3, "source": "key"}
    statuses = [trio[number % 3].check(key).status_code for number in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert trio[1].get(f"/limits/{key}") == {"key": key, "limit": 3, "source": "key"}
    assert {"key": key, "limit": 3, "source": "key"} in trio[2].get("/limits?limit=1000")["limits"]


def test_a_removed_limit_gives_way_to_the_default(node: NodeProcess, key: str) -> None:
    node.http.put(f"/limits/{key}", json={"limit": 0})
    assert node.check(key).status_code == 429
    default = {"key": key, "limit": 10, "source": "default"}
    assert node.http.delete(f"/limits/{key}").json() == default
    assert node.get(f"/limits/{key}") == default
    assert node.check(key).status_code == 200


@pytest.mark.parametrize("limit", [-1, 1_000_001, 2.5, "7", True, None])
def test_a_limit_that_is_no_count_is_refused(node: NodeProcess, key: str, limit: object) -> None:
    assert node.http.put(f"/limits/{key}", json={"limit": limit}).status_code == 422
    assert node.get(f"/limits/{key}")["source"] == "default"


def test_a_stored_limit_that_is_no_number_lets_the_default_hold(
    node: NodeProcess, store: StoreServer, key: str
) -> None:
    store.client.hset("ratelimiter:limits", key, "a lot")
    assert node.get(f"/limits/{key}") == {"key": key, "limit": 10, "source": "default"}
    assert node.check(key).json()["limit"] == 10


def test_a_blocked_key_is_denied_by_every_node_until_it_is_unblocked(
    trio: list[NodeProcess], key: str
) -> None:
    answer = trio[0].http.put(f"/blocks/{key}", json={"reason": "abuse"})
    assert answer.json() == {"key": key, "blocked": True, "reason": "abuse"}
    denied = [node.check(key) for node in trio]
    assert [each.status_code for each in denied] == [429, 429, 429]
    assert all(each.headers["X-RateLimit-Blocked"] == "1" for each in denied)
    assert answer.json() in trio[1].get("/blocks?limit=1000")["blocks"]
    assert trio[2].get(f"/counters/{key}")["blocked"] is True

    assert trio[2].http.delete(f"/blocks/{key}").json()["blocked"] is False
    allowed = trio[0].check(key)
    assert allowed.status_code == 200
    assert allowed.json()["remaining"] == 9, "denied requests do not count"


def test_a_block_needs_no_reason(node: NodeProcess, key: str) -> None:
    assert node.http.put(f"/blocks/{key}").json()["reason"] == ""
    assert node.check(key).status_code == 429


def test_a_reset_counter_starts_again_from_zero(trio: list[NodeProcess], key: str) -> None:
    for _ in range(12):
        trio[0].check(key)
    assert trio[1].http.delete(f"/counters/{key}").json() == {"key": key, "removed": 10}
    assert trio[2].get(f"/counters/{key}")["count"] == 0
    assert trio[0].check(key).json()["remaining"] == 9
    assert trio[1].http.delete(f"/counters/{key}").json()["removed"] == 1


def test_a_key_with_slashes_can_be_managed(node: NodeProcess, key: str) -> None:
    path = f"tenant/{key}/10.0.0.0/8"
    node.http.put(f"/limits/{path}", json={"limit": 1})
    assert [node.check(path).status_code for _ in range(2)] == [200, 429]
    assert node.get(f"/counters/{path}")["count"] == 1
    assert node.http.delete(f"/counters/{path}").json() == {"key": path, "removed": 1}


def test_a_counter_leaves_out_requests_that_left_the_window(
    node: NodeProcess, store: StoreServer, key: str
) -> None:
    node.check(key)
    window = f"ratelimiter:window:{key}"
    second, _ = store.client.time()
    store.client.zadd(window, {"long-ago": (second - 61) * 1_000_000})
    assert store.client.zcard(window) == 2
    assert node.get(f"/counters/{key}")["count"] == 1


def test_a_counter_that_never_expires_is_recognisable(
    node: NodeProcess, store: StoreServer, key: str
) -> None:
    begun = time.monotonic()
    node.check(key)
    ttl_s = node.get(f"/counters/{key}")["ttl_s"]
    assert 60 - (time.monotonic() - begun) - 1 <= ttl_s <= 60
    store.client.persist(f"ratelimiter:window:{key}")
    assert node.get(f"/counters/{key}")["ttl_s"] is None


def test_lists_are_bounded_and_say_when_they_are_cut(rig: Rig) -> None:
    node = rig.node(rig.store())
    for number in range(5):
        node.check(f"key-{number}")
        node.http.put(f"/limits/key-{number}", json={"limit": 7})
        node.http.put(f"/blocks/key-{number}")
    for noun in ("counters", "limits", "blocks"):
        cut, whole = node.get(f"/{noun}?limit=3"), node.get(f"/{noun}")
        assert (len(cut[noun]), cut["truncated"]) == (3, True)
        assert (len(whole[noun]), whole["truncated"]) == (5, False)
        assert node.http.get(f"/{noun}?limit=1001").status_code == 422


def test_every_key_the_service_writes_expires_except_its_configuration(rig: Rig) -> None:
    store = rig.store()
    node = rig.node(store, "--key-prefix", "other:{x}", "--window-s", "20")
    for number in range(4):
        node.check(f"key-{number}")
    node.http.put("/limits/key-1", json={"limit": 1})
    node.http.put("/blocks/key-2")
    for number in range(4):
        node.check(f"key-{number}")

    names = set(store.client.scan_iter())
    configuration = {f"other:{{x}}:{noun}" for noun in CONFIGURATION}
    assert names - configuration == {f"other:{{x}}:window:key-{number}" for number in range(4)}
    assert configuration <= names
    assert all(0 < store.client.pttl(name) <= 20_000 for name in names - configuration)
    assert all(store.client.pttl(name) == -1 for name in configuration)


def test_nodes_with_other_prefixes_on_one_store_do_not_meet(
    rig: Rig, node: NodeProcess, store: StoreServer, key: str
) -> None:
    other = rig.node(store, "--key-prefix", "other")
    assert [each.check(key).json()["remaining"] for each in (node, other)] == [9, 99]
    assert [counter["key"] for counter in other.get("/counters")["counters"]] == [key]
    assert [each["name"] for each in other.get("/nodes")["nodes"]] == ["node-1"]
