"""The window is exact, whoever asks and whoever dies."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx2
import pytest

from operator_ratelimiter.settings import Settings
from operator_ratelimiter.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tests.services.conftest import NodeProcess, Rig, StoreServer


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered check, as its caller saw it."""

    sent_s: float
    received_s: float
    status: int


async def ask(client: httpx2.AsyncClient, url: str, key: str) -> Answer | None:
    """One check; None when the node died under it."""
    sent_s = time.monotonic()
    try:
        response = await client.post(f"{url}/check", json={"key": key})
    except httpx2.TransportError:
        return None
    return Answer(sent_s, time.monotonic(), response.status_code)


async def ask_at_once(urls: Sequence[str], key: str, count: int) -> list[int]:
    """The statuses of `count` checks sent together, in turn to each node."""
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as client:
        asked = [ask(client, urls[number % len(urls)], key) for number in range(count)]
        return [answer.status for answer in await asyncio.gather(*asked) if answer]


def most_in_one_window(allowed: Sequence[Answer], window_s: float) -> int:
    """The most allowed requests that surely lie within one window, by the callers' clocks."""
    return max(
        sum(
            first.sent_s <= each.sent_s and each.received_s < first.sent_s + window_s
            for each in allowed
        )
        for first in allowed
    )


@pytest.mark.asyncio
async def test_twenty_parallel_requests_with_limit_ten_allow_exactly_ten(
    trio: list[NodeProcess], key: str
) -> None:
    statuses = await ask_at_once([trio[0].url], key, 20)
    assert (statuses.count(200), statuses.count(429)) == (10, 10)


@pytest.mark.asyncio
async def test_three_nodes_together_allow_exactly_the_limit(
    trio: list[NodeProcess], key: str
) -> None:
    statuses = await ask_at_once([node.url for node in trio], key, 60)
    assert (statuses.count(200), statuses.count(429)) == (10, 50)
    assert [node.get(f"/counters/{key}")["count"] for node in trio] == [10, 10, 10]


@pytest.mark.asyncio
async def test_a_burst_beyond_the_connections_to_the_store_waits(
    store: StoreServer, key: str
) -> None:
    settings = Settings(
        name="x", port=1, store_url=store.url, store_connections_max=3, store_timeout_s=60.0
    )
    asked = Store(settings)
    try:
        counts = await asyncio.gather(*(asked.ask("INCR", key) for _ in range(40)))
    finally:
        await asked.close()
    assert sorted(counts) == list(range(1, 41))


@dataclass(frozen=True, slots=True)
class Round:
    """Callers that ask three nodes for a while, one of which dies, all by a seed."""

    seed: int
    window_s: float = 0.3
    run_s: float = 1.0

    async def play(self, nodes: Sequence[NodeProcess], key: str) -> list[Answer]:
        """Every answer that a caller got."""
        chance = random.Random(self.seed)
        urls, victim = [node.url for node in nodes], chance.choice(nodes)
        async with httpx2.AsyncClient(timeout=30, trust_env=False) as client:
            callers = [self._call(client, urls, key, chance.random()) for _ in range(8)]
            killing = asyncio.create_task(self._kill(victim, chance.uniform(0.2, 0.7)))
            answered = await asyncio.gather(*callers)
            await killing
        return [answer for answers in answered for answer in answers]

    async def _call(
        self, client: httpx2.AsyncClient, urls: Sequence[str], key: str, seed: float
    ) -> list[Answer]:
        chance, deadline_s = random.Random(seed), time.monotonic() + self.run_s
        answers: list[Answer] = []
        while time.monotonic() < deadline_s:
            answer = await ask(client, chance.choice(urls), key)
            answers += [answer] if answer else []
            await asyncio.sleep(chance.uniform(0, 0.02))
        return answers

    async def _kill(self, victim: NodeProcess, after_s: float) -> None:
        await asyncio.sleep(after_s)
        victim.kill()


@pytest.mark.asyncio
async def test_no_window_ever_holds_more_than_the_limit_while_a_node_is_killed(rig: Rig) -> None:
    rounds = [Round(seed) for seed in (1, 2, 3)]
    nodes = rig.nodes(rig.store(), 2 + len(rounds), "--window-s", str(rounds[0].window_s))
    for each in rounds:
        limit, key = random.Random(each.seed).randint(3, 12), f"key-{each.seed}"
        nodes[-1].http.put(f"/limits/{key}", json={"limit": limit})
        answers = await each.play(nodes[:3], key)
        nodes = [node for node in nodes if node.process.poll() is None]

        allowed = [answer for answer in answers if answer.status == 200]
        # Several windows passed and each was used, so the limit was really put to the test.
        assert limit * 2 <= len(allowed) <= limit * (each.run_s / each.window_s + 2), each
        assert most_in_one_window(allowed, each.window_s) <= limit, each
    assert len(nodes) == 2


def test_a_place_becomes_free_when_the_oldest_request_leaves_the_window(
    rig: Rig, key: str, until: Callable[..., Any]
) -> None:
    node = rig.node(rig.store(), "--default-limit", "2", "--window-s", "0.5")
    asked_s: list[float] = []  # when each request that was allowed was sent

    def ask() -> int:
        sent_s, status = time.monotonic(), node.check(key).status_code
        asked_s.extend([sent_s] if status == 200 else [])
        return int(status)

    # A busy machine may need several windows until three requests meet in one.
    until(lambda: ask() == 429)
    until(lambda: ask() == 200)
    assert time.monotonic() - asked_s[-3] >= 0.5


@pytest.mark.parametrize(("age_s", "status", "kept"), [(55, 429, 10), (61, 200, 2)])
def test_only_requests_younger_than_the_window_count(
    node: NodeProcess, store: StoreServer, key: str, age_s: int, status: int, kept: int
) -> None:
    node.check(key)
    window, (second, _) = f"ratelimiter:window:{key}", store.client.time()
    older = {f"older-{number}": (second - age_s) * 1_000_000 for number in range(9)}
    store.client.zadd(window, older)
    answer = node.check(key)
    assert answer.status_code == status
    assert store.client.zcard(window) == kept
    if status == 429:
        assert answer.json()["reset_s"] == pytest.approx(60 - age_s, abs=2)


def test_an_answer_says_what_is_left_and_when_to_come_back(node: NodeProcess, key: str) -> None:
    begun = time.monotonic()
    answers = [node.check(key) for _ in range(11)]
    took_s = time.monotonic() - begun
    first, last = answers[0], answers[-1]
    assert first.status_code == 200
    assert first.headers["X-RateLimit-Limit"] == "10"
    assert first.headers["X-RateLimit-Remaining"] == "9"
    assert "Retry-After" not in first.headers
    assert last.status_code == 429
    assert last.headers["X-RateLimit-Remaining"] == "0"
    assert last.headers["Retry-After"] == last.headers["X-RateLimit-Reset"]
    body = last.json()
    assert set(body) == {"allowed", "limit", "remaining", "reset_s"}
    assert (body["allowed"], body["limit"], body["remaining"]) == (False, 10, 0)
    assert 60 - took_s - 1 <= body["reset_s"] <= 60


def test_a_lowered_limit_makes_the_caller_wait_for_every_surplus_request(
    node: NodeProcess, store: StoreServer, key: str
) -> None:
    for _ in range(5):
        node.check(key)
    window = f"ratelimiter:window:{key}"
    third_s = store.client.zrange(window, 2, 2, withscores=True)[0][1] / 1_000_000
    node.http.put(f"/limits/{key}", json={"limit": 3})
    second, microsecond = store.client.time()
    answer = node.check(key)
    assert answer.status_code == 429
    free_at_s = second + microsecond / 1_000_000 + answer.json()["reset_s"]
    assert free_at_s == pytest.approx(third_s + 60, abs=0.5)


def test_requests_are_stamped_by_the_clock_of_the_store_and_say_who_allowed_them(
    trio: list[NodeProcess], store: StoreServer, key: str
) -> None:
    before_s, before_us = store.client.time()
    for node in trio:
        node.check(key)
    after_s, after_us = store.client.time()
    entries = store.client.zrange(f"ratelimiter:window:{key}", 0, -1, withscores=True)
    assert [member.split(":")[0] for member, _ in entries] == ["node-1", "node-2", "node-3"]
    for _, score in entries:
        assert before_s * 1_000_000 + before_us <= score <= after_s * 1_000_000 + after_us
