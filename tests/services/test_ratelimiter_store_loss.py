"""Without its store a node says so, answers by its loss mode in time, and recovers by itself."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import httpx2
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from tests.services.conftest import NodeProcess, Rig

# No longer may a node wait for its store; a busy test machine may need more for all the rest.
STORE_TIMEOUT_S = 0.8
PATIENT_S = 60.0
ROUNDS_MAX = 30


def connected(node: NodeProcess) -> bool:
    """Whether a node says that it reaches its store."""
    return bool(node.get("/health")["store_connected"])


def test_health_follows_the_store_down_and_up_again(rig: Rig, until: Callable[..., Any]) -> None:
    store = rig.store()
    node = rig.node(store)
    health = node.get("/health")
    assert set(health) == {
        *("name", "status", "process", "version", "uptime_s"),
        *("p99_check_ms", "p99_sustained_ms"),
        *("store_connected", "store_error", "store_address", "store_moves"),
        *("degraded", "draining"),
        *("default_limit", "window_s", "key_prefix", "on_store_loss"),
    }
    assert (health["name"], health["status"]) == ("node-1", "up")
    assert (health["store_connected"], health["store_error"]) == (True, None)

    store.kill()
    until(lambda: not connected(node))
    health = node.get("/health")
    assert health["status"] == "up"
    assert "Connection" in health["store_error"]

    store.start()
    until(lambda: connected(node))
    assert node.get("/health")["store_error"] is None


def test_fail_open_lets_requests_pass_and_says_that_nobody_counted(
    rig: Rig, key: str, until: Callable[..., Any]
) -> None:
    store = rig.store()
    node = rig.node(store, "--default-limit", "1")
    store.kill()
    for _ in range(3):
        answer = node.check(key)
        assert answer.status_code == 200
        assert answer.headers["X-RateLimit-Degraded"] == "1"
        assert answer.json() == {
            "allowed": True,
            "limit": None,
            "remaining": None,
            "reset_s": None,
        }
    store.start()
    until(lambda: "X-RateLimit-Degraded" not in node.check(key).headers)
    assert node.check(key).status_code == 429


def test_fail_closed_refuses_requests_and_says_when_to_try_again(
    rig: Rig, key: str, until: Callable[..., Any]
) -> None:
    store = rig.store()
    node = rig.node(store, "--on-store-loss", "fail_closed")
    store.kill()
    answer = node.check(key)
    assert answer.status_code == 503
    assert answer.json()["allowed"] is False
    assert answer.headers["Retry-After"] == "1"
    store.start()
    until(lambda: node.check(key).status_code == 200)


def test_management_answers_503_in_words_without_a_store(rig: Rig) -> None:
    node = rig.node(rig.store(started=False))
    for path in ("/nodes", "/counters", "/counters/k", "/limits", "/limits/k", "/blocks"):
        answer = node.http.get(path)
        assert answer.status_code == 503
        assert "the store does not serve" in answer.json()["detail"]
    assert "Traceback" not in node.log


def test_a_node_starts_before_its_store(rig: Rig, key: str, until: Callable[..., Any]) -> None:
    store = rig.store(started=False)
    node = rig.node(store, "--heartbeat-s", "0.2")
    assert not connected(node)
    store.start()
    until(lambda: connected(node))
    assert node.check(key).headers["X-RateLimit-Remaining"] == "99"
    until(lambda: node.get("/nodes")["nodes"])


@pytest.mark.asyncio
async def test_a_store_that_hangs_holds_nobody(rig: Rig, key: str) -> None:
    store = rig.store()
    node = rig.node(store, "--store-timeout-s", str(STORE_TIMEOUT_S))
    node.check(key)
    store.pause()

    async def timed(client: httpx2.AsyncClient, method: str, path: str) -> tuple[int, float]:
        started_s = time.monotonic()
        body = {"key": key} if method == "POST" else None
        answer = await client.request(method, node.url + path, json=body)
        return answer.status_code, time.monotonic() - started_s

    limits = httpx2.Limits(max_connections=200)
    async with httpx2.AsyncClient(timeout=PATIENT_S, trust_env=False, limits=limits) as client:
        asked = [timed(client, "POST", "/check") for _ in range(40)]
        asked += [timed(client, "GET", path) for path in ("/health", "/metrics")]
        # All are answered while it hangs, and it never comes back by itself.
        answers = await asyncio.gather(*asked)
        assert {status for status, _ in answers} == {200}
        error = node.get("/health")["store_error"]
        assert f"no answer within {STORE_TIMEOUT_S:g} s" in error
        # Once the store is known to be lost, one caller tries it and the others do not wait.
        for _ in range(ROUNDS_MAX):
            again = await asyncio.gather(*(timed(client, "POST", "/check") for _ in range(20)))
            assert {status for status, _ in again} == {200}
            if sorted(duration_s for _, duration_s in again)[-2] < STORE_TIMEOUT_S:
                break
        else:
            pytest.fail(f"all of them waited for the store, in each of {ROUNDS_MAX} rounds")
    assert not connected(node)
    store.resume()
    assert node.get("/health")["name"] == "node-1"


def test_loss_and_return_of_the_store_are_logged_once_each(
    rig: Rig, key: str, until: Callable[..., Any]
) -> None:
    store = rig.store()
    node = rig.node(store)
    until(lambda: connected(node))
    store.kill()
    for _ in range(10):
        node.check(key)
    store.start()
    until(lambda: connected(node))
    for _ in range(10):
        node.check(key)
    address = f"store 127.0.0.1:{store.port}/0"
    events = [line.split(f"{address} ")[1] for line in node.log.splitlines()[1:]]
    assert [event.split(":")[0] for event in events] == ["answers", "is lost", "answers"]
    assert "Traceback" not in node.log


def test_a_password_comes_from_a_file_and_is_never_shown(rig: Rig, tmp_path: Path) -> None:
    store = rig.store("--requirepass", "open-sesame")
    password_file = tmp_path / "password"
    password_file.write_text("open-sesame\n")
    node = rig.node(store, "--store-password-file", str(password_file))
    assert connected(node)
    assert "open-sesame" not in node.log


@pytest.mark.parametrize("password", [None, "guess"])
def test_a_wrong_password_is_a_lost_store_and_says_so(
    rig: Rig, tmp_path: Path, key: str, password: str | None
) -> None:
    store = rig.store("--requirepass", "open-sesame")
    password_file = tmp_path / "password"
    password_file.write_text(password or "")
    options = ["--store-password-file", str(password_file)] if password else []
    node = rig.node(store, *options)
    health = node.get("/health")
    assert health["store_connected"] is False
    assert "Authentication" in health["store_error"]
    assert node.check(key).headers["X-RateLimit-Degraded"] == "1"


def test_a_store_that_refuses_writes_is_connected_but_named_in_health(
    rig: Rig, key: str, until: Callable[..., Any]
) -> None:
    store = rig.store()
    node = rig.node(store, "--heartbeat-s", "0.2", "--registry-ttl-s", "5")
    until(lambda: node.get("/nodes")["nodes"])
    store.client.config_set("maxmemory", "1")
    until(lambda: node.get("/health")["store_error"])
    health = node.get("/health")
    assert health["store_connected"] is True
    assert "maxmemory" in health["store_error"]
    assert node.check(key).headers["X-RateLimit-Degraded"] == "1"
    store.client.config_set("maxmemory", "0")
    until(lambda: node.get("/health")["store_error"] is None)
    assert node.check(key).headers["X-RateLimit-Limit"] == "100"


def test_a_poisoned_key_harms_only_itself(rig: Rig, key: str, until: Callable[..., Any]) -> None:
    store = rig.store()
    node = rig.node(store)
    store.client.set(f"ratelimiter:window:{key}", "not a window", ex=60)
    assert node.check(key).headers["X-RateLimit-Degraded"] == "1"
    assert node.check("another").headers["X-RateLimit-Remaining"] == "99"
    assert [counter["key"] for counter in node.get("/counters")["counters"]] == ["another"]
    assert node.http.delete(f"/counters/{key}").status_code == 503
