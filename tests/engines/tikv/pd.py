"""A stand-in for `pd-server`: its HTTP API, its election and its rules, and nothing stored."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.engines.tikv.cluster import VERSION, Cluster, defaults
from tests.engines.tikv.consensus import Consensus, NoMajorityError
from tests.engines.tikv.operations import Operations
from tests.engines.tikv.pages import MISSING, PREFIX, Pages
from tests.engines.tikv.unified import Log, lay_out, merged, read_settings, seconds
from tests.engines.tikv.wire import Reply, Request, ask, port_of, serve

__all__ = ["Member", "main"]

DISCONNECTED_S = 20.0
TICK_S = 0.1
SPREAD_S = 1.0
LOCAL = "pd-allow-follower-handle"
PASSED_ON = "pd-redirector"
NO_LEADER = Reply(503, b"no leader\n")


class Member:
    """One PD."""

    def __init__(self, words: argparse.Namespace, settings: dict[str, Any], log: Log) -> None:
        self._words, self._settings, self._log = words, settings, log
        self._started = time.time()
        self._peers = dict(one.split("=", 1) for one in words.initial_cluster.split(","))
        place = Path(words.data_dir)
        place.mkdir(parents=True, exist_ok=True)
        lay_out(place, "member/wal/0000000000000000-0000000000000000.wal", "member/snap/db")
        lease_s = seconds(settings.get("lease", 3))
        self._consensus = Consensus(words.name, self._peers, place, log, lease_s=lease_s)
        self._urls: dict[str, str] = {words.name: words.advertise_client_urls or words.client_urls}
        self._cluster = Cluster(disconnected_s=words.disconnected_s)
        self._operations = Operations(self._cluster)
        self._pages = Pages(self._cluster, self._operations, log, self._consensus.change)
        self._ready_term = 0
        self._spread = 0.0

    async def run(self) -> None:
        """Serve until it is ended."""
        self._log.info("versioninfo.go:89", "Welcome to Placement Driver (PD)", version=VERSION)
        self._log.warn("versioninfo.go:90", "this is a stand-in for pd-server: it stores nothing")
        await serve(*port_of(self._words.peer_urls), self._from_member)
        await serve(*port_of(self._words.client_urls), self.answer)
        await asyncio.gather(self._consensus.run(), self._lead(), self._introduce())

    async def _from_member(self, request: Request) -> Reply:
        if request.path == "/stand-in/who":
            return Reply.of(self._urls[self._words.name])
        return await self._consensus.answer(request)

    async def _introduce(self) -> None:
        """Learn where the others answer clients."""
        while len(self._urls) < len(self._peers):
            for name, url in self._peers.items():
                if name not in self._urls:
                    with contextlib.suppress(OSError, TimeoutError):
                        self._urls[name] = str((await ask(f"{url}/stand-in/who")).json())
            await asyncio.sleep(TICK_S)

    async def _lead(self) -> None:
        """Take over when it becomes the leader, and schedule while it is."""
        while True:
            await asyncio.sleep(TICK_S)
            if not self._consensus.leads:
                self._ready_term = 0
                continue
            with contextlib.suppress(NoMajorityError):
                if self._ready_term != self._consensus.term:
                    await self._take_over()
                self._pages.schedule.tick()
                if gone := self._cluster.settle():
                    self._log.warn("cluster.go:1500", "store has been Tombstone", store=gone[0])
                    await self._consensus.change()
            if time.monotonic() - self._spread > SPREAD_S:
                self._tell_the_others()

    async def _take_over(self) -> None:
        if not self._consensus.document:
            schedule, replication = (self._settings.get(n, {}) for n in ("schedule", "replication"))
            over = {"schedule": schedule, "replication": replication}
            self._consensus.document = merged(defaults(), over)
        self._cluster.take(self._consensus.document, self._consensus.hearsay)
        self._operations.running.clear()
        await self._consensus.change()
        self._ready_term = self._consensus.term

    def _tell_the_others(self) -> None:
        self._spread = time.monotonic()
        self._consensus.hearsay = self._cluster.hearsay
        self._consensus.hearsay_number += 1

    async def answer(self, request: Request) -> Reply:
        """What a client or a store asks: answered here, or passed on to who leads."""
        path = request.path
        match path:
            case "/pd/ping" | "/pd/api/v1/ping":
                return Reply()
            case "/metrics":
                return Reply(body=self._metrics().encode())
            case "/stand-in/leader":
                return Reply.of(self._urls.get(self._consensus.known_leader, ""))
        local = LOCAL in request.headers
        if not local and not self._serving():
            return await self._pass_on(request)
        if (reply := await self._own(request)) is not None:
            return reply
        if not self._serving():
            return Reply.of("[PD:server:ErrServerNotStarted]server not started", 500)
        try:
            if path.startswith("/stand-in/"):
                return await self._from_store(request)
            return await self._pages.answer(request)
        except NoMajorityError:
            return Reply.of("[PD:etcd:ErrEtcdTxnInternal]internal etcd transaction error", 500)

    def _serving(self) -> bool:
        leads = self._consensus.leads
        return leads and self._ready_term == self._consensus.term

    async def _pass_on(self, request: Request) -> Reply:
        leader = self._urls.get(self._consensus.known_leader)
        if leader is None or self._consensus.leads:
            return NO_LEADER
        if PASSED_ON in request.headers:
            said = "[PD:apiutil:ErrRedirectToNotLeader]redirect to not leader"
            return Reply(500, f"{said}\n".encode())
        headers = {"PD-Redirector": self._words.name}
        try:
            return await ask(
                f"{leader}{request.target}",
                request.body,
                method=request.method,
                headers=headers,
                timeout_s=5.0,
            )
        except (OSError, TimeoutError):
            return Reply(500, b"[PD:apiutil:ErrRedirect]redirect failed\n")

    async def _own(self, request: Request) -> Reply | None:
        """Pages about PD itself."""
        match [request.method, *request.path.removeprefix(PREFIX).split("/")]:
            case ["GET", "members"]:
                return Reply.of(self._members())
            case ["GET", "health"]:
                return Reply.of(await self._health())
            case ["GET", "leader"]:
                return Reply.of(self._member(self._consensus.known_leader))
            case ["POST", "leader", "resign"]:
                await self._consensus.resign()
                return Reply.of("The resign command is submitted.")
            case ["POST", "leader", "transfer", name]:
                if name not in self._peers:
                    return Reply.of(f"not found, pd: {name}", 500)
                done = name == self._words.name or await self._consensus.resign(name)
                said = "The transfer command is submitted." if done else "cannot transfer"
                return Reply.of(said, 200 if done else 500)
            case ["GET", "version"]:
                return Reply.of({"version": VERSION})
            case ["GET", "status"]:
                facts = {"build_ts": "none", "version": VERSION, "git_hash": "stand-in"}
                return Reply.of({**facts, "start_timestamp": int(self._started)})
            case ["GET", "cluster"]:
                replicas = self._consensus.document.get("replication", {}).get("max-replicas", 3)
                return Reply.of({"id": self._cluster_id(), "max_peer_count": replicas})
            case ["GET", "cluster", "status"]:
                at = self._consensus.document.get("bootstrapped", "")
                ready = {"is_initialized": bool(at), "replication_status": "normal"}
                return Reply.of({"raft_bootstrap_time": at or "0001-01-01T00:00:00Z", **ready})
        return None

    def _cluster_id(self) -> int:
        return int(self._consensus.document.get("cluster_id", 0))

    def _member(self, name: str) -> dict[str, Any]:
        number = 1 + sum(ord(letter) * 31**place for place, letter in enumerate(name[:12]))
        return {
            "name": name,
            "member_id": number,
            "peer_urls": [self._peers.get(name, "")],
            "client_urls": [self._urls.get(name, "")],
            "deploy_path": "/",
            "binary_version": f"v{VERSION}",
            "git_hash": "stand-in",
        }

    def _members(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "header": {"cluster_id": self._cluster_id()},
            "members": [self._member(name) for name in sorted(self._peers)],
        }
        if leader := self._consensus.known_leader:
            found |= {"leader": self._member(leader), "etcd_leader": self._member(leader)}
        return found

    async def _health(self) -> list[dict[str, Any]]:
        async def alive(name: str) -> bool:
            try:
                return (await ask(f"{self._urls.get(name, '')}/pd/api/v1/ping")).status == 200
            except (OSError, TimeoutError, SystemExit):
                return False

        names = sorted(self._peers)
        answers = await asyncio.gather(*(alive(name) for name in names))
        return [
            {
                "name": name,
                "member_id": self._member(name)["member_id"],
                "client_urls": [self._urls.get(name, "")],
                "health": well,
            }
            for name, well in zip(names, answers, strict=True)
        ]

    async def _from_store(self, request: Request) -> Reply:
        message = request.json()
        if request.path == "/stand-in/put":
            number, regions = self._cluster.put(message)
            await self._consensus.change()
            self._log.info("grpc_service.go:850", "put store ok", store_id=number)
            return Reply.of({"id": number, "regions": regions})
        if request.path != "/stand-in/heartbeat":
            return MISSING
        sid = str(message["id"])
        store = self._cluster.stores.get(sid)
        if store is None or store.get("state") == 2:
            return Reply.of(f"store {sid} is a tombstone", 410)
        if self._cluster.heard(sid, message["stats"], message["regions"]):
            self._operations.review()
        there = [one for one in self._cluster.stores.values() if one["state"] != 2]
        everybody = {one["id"]: one["address"] for one in there}
        return Reply.of({"stores": everybody, "orders": self._operations.orders(int(sid))})

    def _metrics(self) -> str:
        leads = int(self._consensus.leads)
        lines = [
            f'pd_server_info{{hash="stand-in",version="v{VERSION}"}} 1',
            f"etcd_server_has_leader {int(bool(self._consensus.known_leader))}",
            f"etcd_server_is_leader {leads}",
            f"process_start_time_seconds {self._started:.2f}",
            f"process_cpu_seconds_total {time.process_time():.2f}",
        ]
        if self._serving():
            lines += self._pages.metrics()
        return "\n".join([*lines, ""])


def main() -> None:
    """Read the words of the command line as pd-server does, and serve."""
    parser = argparse.ArgumentParser(prog="pd-server", allow_abbrev=False)
    for name in ("name", "client-urls", "advertise-client-urls", "peer-urls"):
        parser.add_argument(f"--{name}", default="")
    for name in ("advertise-peer-urls", "initial-cluster", "data-dir", "config", "log-file"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--disconnected-s", type=float, default=DISCONNECTED_S)
    parser.add_argument("-V", "--version", action="version", version=f"Release Version: {VERSION}")
    words = parser.parse_args()
    if not (words.name and words.client_urls and words.initial_cluster and words.data_dir):
        parser.error("it needs --name, --client-urls, --initial-cluster and --data-dir")
    log = Log(words.log_file)
    member = Member(words, read_settings(words.config), log)
    try:
        asyncio.run(member.run())
    except KeyboardInterrupt:
        sys.exit(0)
    except OSError as problem:
        log.line("FATAL", "main.go:232", "run server failed", error=problem)
        os._exit(1)
