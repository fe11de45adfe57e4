"""Metrics: of a real exposition, as a rate between two looks, and of a server that is asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import prometheus_client
import pytest

from operator_protocols.domain.health import Health
from tests.contract.servers import Behave, floods, http, serving, unused_port
from tests.subjects.declarative.trying import Tried, described

pytestmark = pytest.mark.asyncio

TEXT = """\
name: a
targets: {t: {kind: k, port: PORT}}
probes:
  numbers:
    prometheus:
      read:
        jobs: queue_jobs
        errors: {metric: requests_total, labels: {code: "500"}}
        all: {metric: requests_total}
        per_second: {metric: requests_total, labels: {code: "200"}, rate: true}
        p: {metric: none_such}
invariants: {i: {holds: numbers.per_second < 10}}
"""


class Exposition:
    """A registry of its own, shown by the real exporter."""

    def __init__(self) -> None:
        registry = prometheus_client.CollectorRegistry()
        self.requests = prometheus_client.Counter(
            "requests", "all of them", ["code"], registry=registry
        )
        self.jobs = prometheus_client.Gauge("queue_jobs", "waiting", registry=registry)
        self.server, self.thread = prometheus_client.start_http_server(
            0, addr="127.0.0.1", registry=registry
        )

    @property
    def port(self) -> int:
        return int(self.server.server_port)

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        assert isinstance(self.thread, threading.Thread)
        self.thread.join(10.0)


@pytest.fixture
def exposition() -> Iterator[Exposition]:
    made = Exposition()
    yield made
    made.end()


def shown(folder: Path, port: int) -> Tried:
    return described(folder, TEXT.replace("PORT", str(port)))


async def test_metrics_are_summed_over_what_is_not_named(
    tmp_path: Path, exposition: Exposition
) -> None:
    exposition.requests.labels("200").inc(40)
    exposition.requests.labels("500").inc(2)
    exposition.jobs.set(7)
    readings = (await shown(tmp_path, exposition.port).seen()).readings
    assert readings["numbers.ok"] is True
    assert (readings["numbers.jobs"], readings["numbers.errors"]) == (7.0, 2.0)
    assert readings["numbers.all"] == 42.0
    assert "numbers.p" not in readings


async def test_a_counter_is_a_rate_between_two_looks(
    tmp_path: Path, exposition: Exposition
) -> None:
    tried = shown(tmp_path, exposition.port)
    exposition.requests.labels("200").inc(100)
    assert await tried.health() is Health.UNKNOWN, "one look shows no rate"
    tried.clock.advance(10.0)
    exposition.requests.labels("200").inc(50)
    readings = (await tried.seen()).readings
    assert readings["numbers.per_second"] == 5.0
    tried.clock.advance(1.0)
    exposition.requests.labels("200").inc(50)
    assert await tried.health() is Health.BROKEN
    # A counter that was set back has begun anew: nobody knows how fast it was.
    exposition.requests.labels("200").reset()
    tried.clock.advance(1.0)
    assert await tried.health() is Health.UNKNOWN


async def test_what_are_no_metrics_is_down(tmp_path: Path) -> None:
    for behave in (
        http(200, b"queue_jobs{ nonsense"),
        http(500, b""),
        floods(b"HTTP/1.1 200 X\r\n\r\n"),
    ):
        async with serving(behave) as port:
            readings = (await shown(tmp_path, port).seen()).readings
            assert readings["numbers.up"] is False
            assert "numbers.jobs" not in readings


def _server(asked: list[str], answer: object) -> Behave:
    inner = http(200, answer)

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0]
        asked.append(line.split()[1])
        reader.feed_data(b"x")
        await inner(reader, writer)

    return behave


QUERIED = """\
name: a
targets: {t: {kind: k, host: shop.example, port: 81}}
probes:
  numbers:
    prometheus:
      server: SERVERS
      read: {p99: 'max(latency{instance="{host}:{port}",target="{target}"})'}
invariants: {i: {holds: numbers.p99 < 0.5}}
"""


@pytest.mark.parametrize(
    ("result", "health"),
    [
        ({"resultType": "vector", "result": [{"metric": {}, "value": [1, "0.25"]}]}, "healthy"),
        ({"resultType": "vector", "result": [{"metric": {}, "value": [1, "0.75"]}]}, "broken"),
        ({"resultType": "scalar", "result": [1, "0.25"]}, "healthy"),
        ({"resultType": "vector", "result": [{"metric": {}, "value": [1, "+Inf"]}]}, "broken"),
        ({"resultType": "vector", "result": [{"metric": {}, "value": [1, "NaN"]}]}, "unknown"),
        ({"resultType": "vector", "result": []}, "unknown"),
        ({"resultType": "vector", "result": [{"value": [1, "1"]}] * 2}, "unknown"),
        ({"resultType": "vector", "result": "x"}, "unknown"),
    ],
)
async def test_a_query_is_asked_of_the_first_server_that_answers(
    tmp_path: Path, result: object, health: str
) -> None:
    asked: list[str] = []
    async with serving(_server(asked, {"status": "success", "data": result})) as port:
        with unused_port() as dead:
            servers = f'["http://127.0.0.1:{dead}/prom", "http://127.0.0.1:{port}/prom"]'
            tried = described(tmp_path, QUERIED.replace("SERVERS", servers))
            assert await tried.health() == health
    url = urlsplit(asked[0])
    assert url.path == "/prom/api/v1/query"
    wanted = 'max(latency{instance="shop.example:81",target="t"})'
    assert parse_qs(url.query)["query"] == [wanted]
