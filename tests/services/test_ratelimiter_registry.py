"""The registry remembers every node: a dead one is down, not gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from operator_ratelimiter.registry import read_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.services.conftest import NodeProcess, Rig

RECORD = {
    "last_heartbeat_s": 1000.0,
    "address": "127.0.0.1:8001",
    "version": "0.1.0",
    "default_limit": 100,
    "window_s": 60.0,
    "on_store_loss": "fail_open",
}


def ups(node: NodeProcess) -> dict[str, bool]:
    """Which nodes `node` sees, and whether each is up."""
    return {each["name"]: each["up"] for each in node.get("/nodes")["nodes"]}


def test_a_dead_node_is_down_and_not_gone(rig: Rig, until: Callable[..., Any]) -> None:
    store = rig.store()
    nodes = rig.nodes(store, 3, "--heartbeat-s", "0.2", "--registry-ttl-s", "0.8")
    all_up = {"node-1": True, "node-2": True, "node-3": True}
    until(lambda: ups(nodes[0]) == all_up)
    nodes[1].kill()
    until(lambda: ups(nodes[0]) == ups(nodes[2]) == all_up | {"node-2": False})
    rig.nodes(store, 2, "--heartbeat-s", "0.2", "--registry-ttl-s", "0.8")
    until(lambda: ups(nodes[2]) == all_up)


def test_a_record_tells_where_a_node_is_and_how_it_is_configured(
    rig: Rig, until: Callable[..., Any]
) -> None:
    store = rig.store()
    first, _ = store.client.time()
    node = rig.node(store, "--default-limit", "7", "--on-store-loss", "fail_closed")
    until(lambda: ups(node))
    (record,) = node.get("/nodes")["nodes"]
    age_s, heartbeat_s = record.pop("heartbeat_age_s"), record.pop("last_heartbeat_s")
    assert record == {
        "name": "node-1",
        "up": True,
        "address": node.url.removeprefix("http://").rstrip("/"),
        "version": "0.1.0",
        "default_limit": 7,
        "window_s": 60.0,
        "on_store_loss": "fail_closed",
        "draining": False,
    }
    second, _ = store.client.time()
    assert first <= heartbeat_s <= second + 1
    assert 0 <= age_s <= second + 1 - first


def test_a_node_registers_again_after_the_store_came_back_empty(
    rig: Rig, until: Callable[..., Any]
) -> None:
    store = rig.store()
    node = rig.node(store, "--heartbeat-s", "0.2", "--registry-ttl-s", "5")
    until(lambda: ups(node))
    store.kill()
    store.start()
    until(lambda: store.client.hexists("ratelimiter:nodes", "node-1"))


@pytest.mark.parametrize(
    ("now_s", "up"), [(1000.0, True), (1030.0, True), (1030.1, False), (969.9, False)]
)
def test_a_heartbeat_counts_for_the_time_to_live_and_not_longer(now_s: float, up: bool) -> None:
    record = read_record("node-1", json.dumps(RECORD), now_s=now_s, ttl_s=30)
    assert record.up is up
    assert record.heartbeat_age_s == pytest.approx(now_s - 1000)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", json.dumps(RECORD | {"last_heartbeat_s": "soon"})]
)
def test_a_record_that_cannot_be_read_is_not_up(text: str) -> None:
    record = read_record("node-1", text, now_s=1000, ttl_s=30)
    assert (record.name, record.up, record.address) == ("node-1", False, None)
