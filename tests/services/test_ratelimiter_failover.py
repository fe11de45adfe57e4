"""Nodes follow the primary that the sentinels name, in bounded time, and keep every count."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from operator_ratelimiter.settings import Settings
from operator_ratelimiter.store import Sentinels, elect
from tests.services.test_ratelimiter_window import ask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.services.conftest import NodeProcess, Rig, StoreServer

PATIENT_S = 60.0
ONE, TWO = ("127.0.0.1", 1), ("127.0.0.1", 2)


@pytest.mark.parametrize(
    ("answers", "current", "winner"),
    [
        ([], ONE, ONE),
        ([TWO], ONE, TWO),
        ([ONE, TWO], ONE, ONE),
        ([TWO, ONE, TWO], ONE, TWO),
        ([TWO, ONE, ONE], ONE, ONE),
        ([TWO, ONE], TWO, TWO),
    ],
)
def test_most_sentinels_decide_and_a_draw_changes_nothing(
    answers: list[tuple[str, int]], current: tuple[str, int], winner: tuple[str, int]
) -> None:
    assert elect(answers, current) == winner


@pytest.mark.asyncio
async def test_sentinels_that_hang_or_are_gone_cost_no_more_than_their_time(rig: Rig) -> None:
    hung, gone = rig.store(), rig.store(started=False)
    hung.pause()
    sentinels = Sentinels(
        Settings(
            name="n",
            port=1,
            store_url="valkey://127.0.0.1:1/0",
            sentinels=(("127.0.0.1", hung.port), ("127.0.0.1", gone.port)),
            sentinel_timeout_s=0.2,
        )
    )
    # It hangs until it is resumed, so that whoever waits for it waits without end.
    async with asyncio.timeout(PATIENT_S):
        assert await sentinels.primary(ONE) == ONE
    hung.resume()
    # It answers now, but it is a store and no sentinel.
    assert await sentinels.primary(ONE) == ONE
    await sentinels.close()


class Trio:
    """A primary with a replica, and three sentinels that look after them."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.primary: StoreServer = rig.store()
        self.replica: StoreServer = rig.store(
            *("--replicaof", "127.0.0.1", str(self.primary.port)),
            *("--repl-diskless-sync-delay", "0"),
        )
        self.sentinels: list[StoreServer] = []
        for number in range(3):
            conf = folder / f"sentinel-{number}.conf"
            conf.write_text(
                f"sentinel monitor limiter 127.0.0.1 {self.primary.port} 2\n"
                "sentinel down-after-milliseconds limiter 2000\n"
                "sentinel failover-timeout limiter 3000\n"
            )
            self.sentinels.append(rig.store(*("--sentinel",), config=conf))

    @property
    def options(self) -> tuple[str, ...]:
        """What a node must be told."""
        found = [("--sentinel", f"127.0.0.1:{each.port}") for each in self.sentinels]
        return ("--sentinel-name", "limiter", *(word for pair in found for word in pair))

    def ready(self) -> bool:
        """The replica is in step, and every sentinel knows it and its fellows."""
        return self.replica.client.info()["master_link_status"] == "up" and all(
            state["num-slaves"] == 1 and state["num-other-sentinels"] == 2
            for each in self.sentinels
            for state in [each.client.sentinel_master("limiter")]
        )

    def in_step(self) -> bool:
        """The replica has everything that the primary has."""
        told = self.primary.client.info("replication")
        return bool(told["slave0"]["offset"] == told["master_repl_offset"])


@pytest.fixture
def stores(rig: Rig, tmp_path: Path, until: Callable[..., Any]) -> Trio:
    trio = Trio(rig, tmp_path)
    until(trio.ready)
    return trio


def _address(node: NodeProcess) -> str:
    return str(node.get("/health")["store_address"])


def _is_degraded(node: NodeProcess, key: str) -> bool:
    return "X-RateLimit-Degraded" in node.check(key).headers


async def _answered(node: NodeProcess, until_at: str) -> int:
    """How many callers were answered before the node had followed."""
    answered = -1  # the last one may have waited for that
    client = httpx2.AsyncClient(timeout=PATIENT_S, trust_env=False)
    async with client, asyncio.timeout(PATIENT_S):
        while await asyncio.to_thread(_address, node) != until_at:
            assert await ask(client, node.url.rstrip("/"), "a") is not None
            answered += 1
    return answered


@pytest.mark.asyncio
async def test_nodes_follow_a_failover_in_time_and_no_count_is_lost(
    rig: Rig, stores: Trio, until: Callable[..., Any]
) -> None:
    nodes = rig.nodes(stores.primary, 2, "--default-limit", "3", *stores.options)
    # This one was told of the replica, which refuses writes with READONLY: it finds the primary.
    lost = rig.nodes(stores.replica, 1, *stores.options)[0]
    until(lambda: not _is_degraded(lost, "b"))
    assert _address(lost) == f"127.0.0.1:{stores.primary.port}/0"

    assert [nodes[at % 2].check("a").status_code for at in range(4)] == [200, 200, 200, 429]
    until(stores.in_step)
    stores.primary.kill()
    replica = f"127.0.0.1:{stores.replica.port}/0"
    assert await _answered(nodes[0], replica) >= 1, "nobody has to wait for a new primary"
    until(lambda: {_address(node) for node in (*nodes, lost)} == {replica})
    until(lambda: not _is_degraded(nodes[0], "a"))
    # What was allowed before the failover still counts after it, at every node.
    assert [node.check("a").status_code for node in nodes] == [429, 429]
    assert nodes[0].get("/health")["store_moves"] == 1
    assert nodes[0].metric("ratelimiter_store_moves") == 1
    assert "the primary is now" in nodes[0].log


@pytest.mark.slow
def test_a_store_that_comes_back_is_a_replica_and_nobody_returns_to_it(
    rig: Rig, stores: Trio, until: Callable[..., Any]
) -> None:
    node = rig.node(stores.primary, *stores.options)
    stores.primary.kill()
    replica = f"127.0.0.1:{stores.replica.port}/0"
    until(lambda: _address(node) == replica, within_s=60)
    stores.primary.start()
    until(lambda: stores.primary.client.role()[0] == "slave", within_s=60)
    assert _address(node) == replica
    until(lambda: not _is_degraded(node, "b"))
    assert stores.replica.client.zcard("ratelimiter:window:b") >= 1


def test_a_sentinel_that_is_no_address_is_refused(rig: Rig) -> None:
    process: subprocess.Popen[bytes] = rig.run(
        *("--name", "n", "--port", "0", "--store", "valkey://127.0.0.1:1/0"),
        *("--sentinel", "nowhere"),
    )
    _, stderr = process.communicate(timeout=30)
    assert b"HOST:PORT" in stderr
