"""Callers say a key and nothing else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.services.conftest import NodeProcess

ROUNDS = 80
DELAYED_S = 0.04  # a constant of the kernel
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("extra", ["limit", "window_s", "cost", "now", "node"])
def test_a_caller_cannot_choose_its_own_limit(node: NodeProcess, key: str, extra: str) -> None:
    response = node.http.post("/check", json={"key": key, extra: 1_000_000})
    assert response.status_code == 422
    assert node.get(f"/counters/{key}")["count"] == 0


def test_a_limit_in_the_query_or_a_header_changes_nothing(node: NodeProcess, key: str) -> None:
    response = node.http.post(
        "/check?limit=1000", json={"key": key}, headers={"X-RateLimit-Limit": "1000"}
    )
    assert response.json()["limit"] == 10


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b"{}",
        b'{"key": ""}',
        b'{"key": 5}',
        b'{"key": null}',
        b'{"key": NaN}',
        b'{"key": "\\ud800"}',
        b'{"key": "k", "\\ud800": 1}',
        b"\xff\xfe",
        b'{"key": "' + b"k" * 257 + b'"}',
    ],
)
def test_a_body_that_is_not_one_key_is_refused_in_words(node: NodeProcess, body: bytes) -> None:
    response = node.http.post("/check", content=body, headers=JSON)
    assert response.status_code == 422
    assert response.json()["detail"]


@pytest.mark.parametrize("odd", ["k" * 256, "a/b?c#d", "späß 😀", "nul\0 line\n", "*", "..:{}"])
def test_any_text_up_to_the_length_limit_is_a_key(node: NodeProcess, key: str, odd: str) -> None:
    unique = (odd + key)[-256:]
    assert node.check(unique).status_code == 200
    counters = node.get("/counters?limit=1000")["counters"]
    assert {"key": unique, "count": 1}.items() <= next(
        counter for counter in counters if counter["key"] == unique
    ).items()


def test_a_body_beyond_its_limit_is_refused_before_it_is_read_whole(node: NodeProcess) -> None:
    response = node.http.post("/check", content=b" " * 1_000_000, headers=JSON)
    assert response.status_code == 413
    assert "16384 bytes" in response.json()["detail"]


def test_no_hostile_body_leaves_a_traceback(node: NodeProcess) -> None:
    assert node.http.post("/check", content=b"[" * 15_000, headers=JSON).status_code == 400
    assert "Traceback" not in node.log


def test_a_kept_connection_does_not_wait_for_delayed_acknowledgements(
    node: NodeProcess, key: str
) -> None:
    # The kernel delays each acknowledgement by 40 ms, once a connection is no longer new; however
    # busy a machine is, one of the answers comes sooner.
    durations_s = []
    for _ in range(ROUNDS):
        started_s = time.perf_counter()
        node.check(key)
        durations_s.append(time.perf_counter() - started_s)
    assert min(durations_s[ROUNDS // 2 :]) < DELAYED_S
