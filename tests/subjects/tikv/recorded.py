"""A TiKV cluster that only talks: three PDs, three stores and a Prometheus, over HTTP.

Its answers have the shape of real ones. Nothing in it decides anything: a test says what it tells.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation
from operator_protocols.domain.target import Access, Target
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.tikv.subject import TikvCluster
from tests.contract.clock import HeldClock
from tests.contract.servers import serving

__all__ = ["PdSaid", "Recorded", "StoreSaid", "recorded"]

TIMEOUT_S = 2.0
BOUNDS = (0.001, 0.01, 0.1, 1.0, 10.0)
SCHEDULERS = ("balance-leader", "balance-region", "balance-hot-region", "evict-slow-store")


@dataclass
class PdSaid:
    """One PD: whether it answers, and how."""

    name: str
    port: int = 0
    up: bool = True
    hangs: bool = False
    version: str = "v8.1.0"
    clock_s: float = 0.0
    raw: bytes = b""


@dataclass
class StoreSaid:
    """One store: what PD says of it, and what it shows itself."""

    id: int
    port: int = 0
    up: bool = True
    state: str = "Up"
    silent_s: float = 1.0
    version: str = "8.1.0"
    capacity: str = "100GiB"
    available: str = "60GiB"
    leaders: int = 40
    regions: int = 120
    labels: tuple[tuple[str, str], ...] = ()
    clock_s: float = 0.0
    latency_s: float = 0.005
    apply_s: float = 0.005
    requests: int = 0
    failures: Counter[int] = field(default_factory=Counter)
    raw: bytes = b""

    @property
    def address(self) -> str:
        """Where clients of the store go."""
        return f"tikv-{self.id}:20160"

    @property
    def status_address(self) -> str:
        """Where its metrics are."""
        return f"127.0.0.1:{self.port}"


class Recorded:
    """What it tells can be changed at any time; every look is counted."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.pds = [PdSaid(f"pd-{n}") for n in (1, 2, 3)]
        self.stores = [StoreSaid(id_) for id_ in (4, 5, 6)]
        self.leader: str | None = "pd-1"
        self.count = 120
        self.checks: dict[str, int] = {}
        self.schedulers = {f"{one}-scheduler": True for one in SCHEDULERS}
        self.evicting: list[int] = []
        self.operators: list[str] = []
        self.hot: dict[str, Any] = {}
        self.metrics = True
        self.scraped = True
        self.prometheus_port = 0
        self.unlisted: set[str] = set()
        self.ghosts: list[int] = []
        self.asked: list[str] = []
        self.headers: list[str] = []
        self.tls: ssl.SSLContext | None = None
        self.access: Access | None = None

    def subject(
        self, *, stores: bool = False, prometheus: bool = False, **options: Any
    ) -> TikvCluster:
        """Somebody who looks at it: at the PDs, and at the rest where that is said."""
        return TikvCluster(self.settings(stores=stores, prometheus=prometheus, **options))

    def settings(
        self,
        *,
        stores: bool = False,
        prometheus: bool = False,
        timeout_s: float = TIMEOUT_S,
        **options: Any,
    ) -> SubjectSettings:
        """What a subject is built with."""
        targets = [Target(one.name, "pd", port=one.port, access=self.access) for one in self.pds]
        if stores:
            targets += [
                Target(
                    f"tikv-{one.id}", "store", endpoints=(one.status_address,), access=self.access
                )
                for one in self.stores
            ]
        if prometheus:
            targets.append(Target("prometheus", "prometheus", port=self.prometheus_port))
        return SubjectSettings("tikv", lambda: targets, self.clock, timeout_s, options)

    async def look(
        self, subject: TikvCluster, times: int = 1
    ) -> tuple[Observation, dict[tuple[str, str], Finding]]:
        """Look so often, with a second and some work between; what the last look showed."""
        for _ in range(times):
            self.asked.clear()
            seen = await subject.observe()
            self.clock.advance(1.0)
            for store in self.stores:
                store.requests += 100
        found = [one for each in subject.invariants for one in each.check(seen)]
        return seen, {(one.invariant, one.target): one for one in found}

    async def broken(self, subject: TikvCluster, times: int) -> dict[tuple[str, str], str]:
        """What is broken after so many looks, with its detail."""
        _, found = await self.look(subject, times)
        return {key: one.detail for key, one in found.items() if one.health is Health.BROKEN}

    def answer(self, pd: PdSaid, path: str, query: str, *, itself: bool) -> tuple[int, bytes]:
        """What a PD says; who follows says what the leader does, except of itself."""
        leads = pd.name == self.leader
        if path == "/metrics":
            return (200, self._pd_metrics(leads=leads).encode()) if self.metrics else (404, b"")
        if not leads and not itself:
            leading = next((one for one in self.pds if one.name == self.leader), None)
            if leading is None or not leading.up:
                return 503, b"no leader"
        name = path.removeprefix("/pd/api/v1/")
        if name.startswith("regions/check/"):
            return 200, self._regions(self.checks.get(name.rpartition("/")[2], 0))
        pages: dict[str, Any] = {
            "leader": self._member(self.leader),
            "stores": self._listed(parse_qs(query).get("state", [])),
            "members": {
                "members": [
                    *(self._member(pd.name) for pd in self.pds if pd.name not in self.unlisted),
                    *({"name": "", "member_id": ghost} for ghost in self.ghosts),
                ],
                "leader": self._member(self.leader),
                "etcd_leader": self._member(self.leader),
            },
            "regions/count": {"count": self.count, "regions": None},
            "operators": self.operators,
            "schedulers": [
                name
                for name, allowed in self.schedulers.items()
                if query != "status=paused" or not allowed
            ],
            "scheduler-config/evict-leader-scheduler/list": {
                "store-id-ranges": {str(id_): [{"start-key": ""}] for id_ in self.evicting}
            },
            "hotspot/regions/write": self.hot,
            "hotspot/regions/read": {"as_leader": {}, "as_peer": {}},
        }
        return (200, json.dumps(pages[name]).encode()) if name in pages else (404, b"not found")

    def _listed(self, states: list[str]) -> dict[str, Any]:
        chosen = [one for one in self.stores if one.state != "Tombstone" or "2" in states]
        chosen = [store for store in chosen if str(store.id) not in self.unlisted]
        return {"count": len(chosen), "stores": [self._store(one) for one in chosen]}

    def _store(self, said: StoreSaid) -> dict[str, Any]:
        heard = self.clock.now() - timedelta(seconds=said.silent_s)
        return {
            "store": {
                "id": said.id,
                "address": said.address,
                "status_address": said.status_address,
                "version": said.version,
                "state_name": said.state,
                "labels": [{"key": key, "value": value} for key, value in said.labels],
            },
            "status": {
                "capacity": said.capacity,
                "available": said.available,
                "leader_count": said.leaders,
                "leader_weight": 1,
                "region_count": said.regions,
                "slow_score": 1,
                "start_ts": "2026-03-04T10:00:00Z",
                "last_heartbeat_ts": heard.isoformat(),
            },
        }

    def _member(self, name: str | None) -> dict[str, Any] | None:
        pd = next((one for one in self.pds if one.name == name), None)
        if pd is None:
            return None
        return {
            "name": pd.name,
            "member_id": 10 + self.pds.index(pd),
            "client_urls": [f"http://127.0.0.1:{pd.port}"],
            "binary_version": pd.version,
        }

    def _regions(self, count: int) -> bytes:
        regions = [
            {"id": 100 + n, "start_key": "", "end_key": ""} for n in range(min(count, 2_000))
        ]
        return json.dumps({"count": count, "regions": regions}, separators=(",", ":")).encode()

    def _pd_metrics(self, *, leads: bool) -> str:
        lines = ["# TYPE pd_regions_status gauge"]
        for kind in ("miss-peer", "down-peer", "pending-peer"):
            count = self.checks.get(kind, 0) if leads else 0
            lines.append(f'pd_regions_status{{type="{kind}-region-count"}} {count}')
        if leads:
            lines.append("# TYPE pd_scheduler_status gauge")
            lines += [
                f'pd_scheduler_status{{kind="{name}",type="allow"}} {int(allowed)}'
                for name, allowed in self.schedulers.items()
            ]
            hot = len(self.hot.get("as_leader", {}))
            lines.append('# TYPE pd_hotspot_status gauge\npd_hotspot_status{address="a",store="4",')
            lines[-1] += f'type="hot_write_region_as_leader"}} {hot}'
        return "\n".join(lines) + "\n"

    def store_metrics(self, said: StoreSaid) -> str:
        """What a store shows: all its requests took as long as it says now."""
        lines = []
        for name, label, took_s in (
            ("tikv_grpc_msg_duration_seconds", 'type="kv_get",', said.latency_s),
            ("tikv_raftstore_apply_wait_time_duration_secs", "", said.apply_s),
        ):
            lines.append(f"# TYPE {name} histogram")
            for bound in BOUNDS:
                count = said.requests if took_s <= bound else 0
                lines.append(f'{name}_bucket{{{label}le="{bound}"}} {count}')
            lines.append(f'{name}_bucket{{{label}le="+Inf"}} {said.requests}')
        lines.append("# TYPE tikv_server_report_failure_msg_total counter")
        lines += [
            f'tikv_server_report_failure_msg_total{{type="unreachable",store_id="{id_}"}} {count}'
            for id_, count in said.failures.items()
        ]
        lines.append('# TYPE tikv_store_size_bytes gauge\ntikv_store_size_bytes{type="used"} 7e9')
        lines.append("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5")
        return "\n".join(lines) + "\n"

    def prometheus(self, query: str) -> bytes:
        """What it says of every store: that it is scraped, and what it showed."""
        marks = [part.partition('"')[0] for part in query.split('"operator_reading", "')[1:]]
        told = {"up": 1.0, "qps": 50.0, "p99_ms": 0.0, "store_bytes": 7e9}
        series = []
        for store in self.stores if self.scraped else self.stores[1:]:
            told |= {"up": float(store.up), "p99_ms": store.latency_s * 1000}
            for mark in marks:
                if mark in told:
                    labels = {"instance": store.status_address, "operator_reading": mark}
                    series.append({"metric": labels, "value": [1.0, str(told[mark])]})
        return json.dumps({"status": "success", "data": {"result": series}}).encode()


@asynccontextmanager
async def recorded(tls: ssl.SSLContext | None = None) -> AsyncIterator[Recorded]:
    """One that answers, on ports of its own."""
    cluster = Recorded()
    async with AsyncExitStack() as servers:

        async def serve(part: PdSaid | StoreSaid | None) -> int:
            answer = partial(_answer, cluster=cluster, part=part)
            return await servers.enter_async_context(serving(answer, tls=tls))

        for pd in cluster.pds:
            pd.port = await serve(pd)
        for store in cluster.stores:
            store.port = await serve(store)
        cluster.prometheus_port = await serve(None)
        yield cluster


async def _answer(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    cluster: Recorded,
    part: PdSaid | StoreSaid | None,
) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path, _, query = head.split(" ", 2)[1].partition("?")
        cluster.asked.append(f"{'prometheus' if part is None else part.port}{path}")
        cluster.headers.append(head)
        status, body = 200, b""
        if part is not None and part.raw:
            writer.write(part.raw)
        elif isinstance(part, PdSaid) and part.hangs:
            await reader.read()  # until whoever asked gives up
        elif part is None or part.up:
            if isinstance(part, PdSaid):
                itself = "PD-Allow-follower-handle" in head
                status, body = cluster.answer(part, path, query, itself=itself)
            elif isinstance(part, StoreSaid):
                body = cluster.store_metrics(part).encode()
            else:
                body = cluster.prometheus("".join(parse_qs(query)["query"]))
            ahead = timedelta(seconds=part.clock_s if part is not None else 0.0)
            date = format_datetime(cluster.clock.now() + ahead, usegmt=True)
            lines = f"HTTP/1.1 {status} OK\r\nDate: {date}\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{lines}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()
