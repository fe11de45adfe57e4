"""One node alone: its drain, its configuration, and the tally of what it did itself."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from operator_ratelimiter.__main__ import Sparse
from operator_ratelimiter.settings import Live, Settings
from operator_ratelimiter.tally import KeyTally, Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.services.conftest import Rig


def test_a_drained_node_turns_checks_away_and_says_so_until_it_is_undrained(rig: Rig) -> None:
    drained, other = rig.nodes(rig.store(), 2)
    answer = drained.http.put("/drain", json={"reason": "kernel update"}).json()
    assert answer == {"name": "node-1", "draining": True, "reason": "kernel update"}
    refused = drained.check("a")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert "drained" in refused.json()["detail"]
    assert other.check("a").status_code == 200
    health = drained.get("/health")
    assert (health["status"], health["draining"]) == ("draining", "kernel update")
    assert drained.metric("ratelimiter_draining") == 1
    assert drained.metric("ratelimiter_requests_turned_away_total") == 1
    records = {one["name"]: one for one in other.get("/nodes")["nodes"]}
    assert (records["node-1"]["draining"], records["node-2"]["draining"]) == (True, False)
    assert records["node-1"]["up"] is True
    # Nothing that it turned away was counted.
    assert other.get("/counters/a")["count"] == 1

    assert drained.http.delete("/drain").json()["draining"] is False
    assert drained.check("a").status_code == 200
    assert drained.get("/health")["status"] == "up"
    records = {one["name"]: one for one in other.get("/nodes")["nodes"]}
    assert records["node-1"]["draining"] is False


def test_a_node_can_be_drained_without_its_store(rig: Rig) -> None:
    node = rig.node(rig.store(started=False))
    assert node.http.put("/drain").json()["draining"] is True
    assert node.check("a").status_code == 503
    assert node.get("/drain")["reason"] == ""


def test_a_changed_limit_holds_at_once_and_after_a_restart(rig: Rig, tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    file.write_text(json.dumps({"default_limit": 5, "window_s": 20}))
    store = rig.store()
    node = rig.node(store, "--config", str(file))
    assert node.get("/config") == {
        "name": "node-1",
        "default_limit": 5,
        "window_s": 20.0,
        "key_prefix": "ratelimiter",
        "on_store_loss": "fail_open",
        "kept": True,
    }
    assert node.check("a").headers["X-RateLimit-Limit"] == "5"
    assert node.http.put("/config", json={"default_limit": 2}).json()["default_limit"] == 2
    assert [node.check("a").status_code for _ in range(2)] == [200, 429]
    assert node.get("/health")["default_limit"] == 2
    node.kill()
    again = rig.node(store, "--config", str(file))
    assert again.check("b").headers["X-RateLimit-Limit"] == "2"
    assert again.get("/health")["window_s"] == 20.0


def test_what_is_said_on_the_command_line_counts_more_than_the_file(
    rig: Rig, tmp_path: Path
) -> None:
    file = tmp_path / "node.json"
    file.write_text(json.dumps({"default_limit": 5}))
    node = rig.node(rig.store(started=False), "--config", str(file), "--default-limit", "7")
    assert node.get("/health")["default_limit"] == 7


@pytest.mark.parametrize(
    "body",
    [
        {"default_limit": -1},
        {"default_limit": True},
        {"window_s": 0},
        {"key_prefix": "a b"},
        {"on_store_loss": "shrug"},
        {"port": 1},
    ],
)
def test_a_configuration_that_makes_no_sense_changes_nothing(
    rig: Rig, body: dict[str, Any]
) -> None:
    node = rig.node(rig.store(started=False))
    before = node.get("/config")
    assert node.http.put("/config", json=body).status_code == 422
    assert node.get("/config") == before


@pytest.mark.parametrize(
    ("text", "word"),
    [("{", "cannot read"), ("[]", "not a JSON object"), ('{"port": 1}', "'port'"), ("", "read")],
)
def test_a_configuration_file_that_makes_no_sense_is_one_sentence(
    rig: Rig, tmp_path: Path, text: str, word: str
) -> None:
    file = tmp_path / "node.json"
    file.write_text(text)
    process = rig.run(
        *("--name", "n", "--port", "0", "--store", "valkey://127.0.0.1:1/0"),
        *("--config", str(file)),
    )
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert word in stderr.decode()
    assert len(stderr.splitlines()) == 1


def test_the_tally_says_what_a_node_allowed_with_and_without_its_store(rig: Rig) -> None:
    store = rig.store()
    node = rig.node(store, "--default-limit", "2")
    for _ in range(3):
        node.check("a")
    node.check("b")
    tally = node.get("/tally")
    assert tally["process"] == node.get("/health")["process"]
    assert (tally["asked"], tally["complete"]) == (4, True)
    assert tally["keys"] == [
        {"key": "a", "asked": 3, "allowed": 2, "uncounted": 0, "limit": 2},
        {"key": "b", "asked": 1, "allowed": 1, "uncounted": 0, "limit": 2},
    ]
    members = store.client.zrange("ratelimiter:window:a", 0, -1)
    assert {member.split(":")[1] for member in members} == {tally["process"]}

    store.kill()
    node.check("a")
    assert node.get("/tally?limit=1")["keys"] == [
        {"key": "a", "asked": 4, "allowed": 3, "uncounted": 1, "limit": 2}
    ]
    assert node.get("/tally?limit=1")["complete"] is False


def _tally(clock: Callable[[], float], **more: Any) -> Tally:
    settings = Settings(name="n", port=1, store_url="valkey://x:1/0", window_s=10.0, **more)
    return Tally(Live(settings), clock=clock)


def test_the_tally_forgets_what_left_the_window() -> None:
    now = [100.0]
    tally = _tally(lambda: now[0])
    tally.add("a", allowed=True, limit=5)
    now[0] += 9.8
    tally.add("a", allowed=False, limit=3)
    assert tally.listing(items_max=9) == [
        KeyTally(key="a", requests=2, allowed=1, uncounted=0, limit=5)
    ]
    now[0] += 0.4
    assert tally.listing(items_max=9) == [
        KeyTally(key="a", requests=1, allowed=0, uncounted=0, limit=3)
    ]
    now[0] += 11
    assert (tally.listing(items_max=9), tally.count_requests()) == ([], 0)
    assert tally.dropped is False


def test_the_tally_has_a_bound_and_says_when_it_was_reached() -> None:
    tally = _tally(lambda: 1.0, tally_keys_max=2)
    for key in ("a", "b", "a"):
        tally.add(key, allowed=True, limit=None)
    before = tally.dropped
    tally.add("c", allowed=True, limit=None)
    assert [each.key for each in tally.listing(items_max=9)] == ["a", "c"]
    assert (before, tally.dropped) == (False, True)
    tally.clear()
    assert tally.count_requests() == 0


def test_what_is_said_over_and_over_is_written_once_in_a_while() -> None:
    now = [5.0]
    sparse = Sparse(clock=lambda: now[0])

    def passes(message: str) -> bool:
        return sparse.filter(logging.makeLogRecord({"msg": message}))

    assert [passes("no files"), passes("no files"), passes("other")] == [True, False, True]
    now[0] += 11
    assert passes("no files")


def test_counters_without_an_expiry_get_one_and_no_other_is_touched(rig: Rig) -> None:
    store = rig.store()
    node = rig.node(store, "--window-s", "50")
    node.check("ours")
    store.client.pexpire("ratelimiter:window:ours", 5_000)
    store.client.zadd("ratelimiter:window:old", {"m": 1})
    assert node.http.post("/counters/expire").json() == {"expired": 1}
    assert 45 < store.client.ttl("ratelimiter:window:old") <= 50
    assert store.client.ttl("ratelimiter:window:ours") <= 5
    assert node.http.post("/counters/expire").json() == {"expired": 0}
