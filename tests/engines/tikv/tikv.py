"""A stand-in for `tikv-server`: heartbeats, leaders, metrics and a log, and no keys at all."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.engines.tikv.gauges import Gauges, page
from tests.engines.tikv.raft import Regions
from tests.engines.tikv.unified import Log, lay_out, merged, read_settings, seconds
from tests.engines.tikv.wire import Reply, Request, ask, port_of, serve

__all__ = ["Store", "main"]

VERSION = "8.1.0-stand-in"
PD_S_MAX = 2.0
SLOW_S = 1.0
SETTINGS: dict[str, Any] = {
    "log": {"level": "info"},
    "server": {"grpc-concurrency": 5},
    "storage": {"reserve-space": "5GiB", "block-cache": {"capacity": "1GiB"}},
    "raftstore": {
        "raft-base-tick-interval": "1s",
        "raft-heartbeat-ticks": 2,
        "raft-election-timeout-ticks": 10,
        "pd-heartbeat-tick-interval": "1m",
        "pd-store-heartbeat-tick-interval": "10s",
        "max-peer-down-duration": "10m",
    },
}


class Store:
    """One TiKV."""

    def __init__(self, words: argparse.Namespace, log: Log) -> None:
        self._words, self._log = words, log
        self.settings = merged(SETTINGS, read_settings(words.config))
        raftstore = self.settings["raftstore"]
        self._beat_s = seconds(raftstore["pd-store-heartbeat-tick-interval"])
        self._tick_s = seconds(raftstore["raft-base-tick-interval"])
        self._place = Path(words.data_dir)
        self._place.mkdir(parents=True, exist_ok=True)
        lay_out(self._place, "raft-engine/0000000000000001.raftlog", "db/CURRENT")
        self._regions = Regions(
            self._place,
            log,
            election_s=self._tick_s * int(raftstore["raft-election-timeout-ticks"]),
            down_s=seconds(raftstore["max-peer-down-duration"]),
        )
        self._pds = [_url(one) for one in words.pd_endpoints.split(",")]
        self._others: dict[int, str] = {}
        # Which of our tables each store has, and which of its own we have.
        self._told: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        # Who is on the way to whom, since when, and how long the last way took.
        self._visits: dict[int, asyncio.Task[None]] = {}
        self._began: dict[int, float] = {}
        self._took: dict[int, float] = {}
        self._lost: set[int] = set()
        self._pd_lost = False
        self._beat_now, self._meet_now = asyncio.Event(), asyncio.Event()
        self._started = time.time()
        self.gauges = Gauges()

    async def run(self) -> None:
        """Serve until it is ended."""
        self._log.info("lib.rs:87", "Welcome to TiKV", version=VERSION)
        self._log.warn("lib.rs:88", "this is a stand-in for tikv-server: it has no keys")
        await serve(*port_of(self._words.status_addr), self._from_anybody)
        await self._join()
        await serve(*port_of(self._words.addr), self._from_store)
        await asyncio.gather(self._report(), self._meet())

    async def _join(self) -> None:
        meta = {
            "address": self._words.advertise_addr or self._words.addr,
            "status_address": self._words.advertise_status_addr or self._words.status_addr,
            "version": VERSION,
            "git_hash": "stand-in",
            "start_timestamp": int(self._started),
            "deploy_path": "/",
        }
        while (found := await self._tell_pd("put", meta)) is None:
            await _until(self._beat_now, self._tick_s)
        self._regions.begin(found["id"], found["regions"])
        self._log.info("node.rs:240", "put store to PD", store_id=found["id"])

    async def _tell_pd(self, verb: str, message: dict[str, Any]) -> dict[str, Any] | None:
        """What the leader of PD says, through whichever member answers; that one is kept."""
        for url in list(self._pds):
            try:
                reply = await ask(f"{url}/stand-in/{verb}", message, timeout_s=PD_S_MAX)
            except (OSError, TimeoutError):
                reply = Reply(0)
            found = reply.json() if reply.status == 200 else None
            if isinstance(found, dict):
                if self._pd_lost:
                    self._log.info("util.rs:730", "connected to PD member", endpoints=url)
                self._pd_lost = False
                return found
            if reply.status == 410:
                self._log.error("pd.rs:1180", "store is tombstone, exit")
                os._exit(1)
            self._pds = [*self._pds[1:], self._pds[0]]
        if not self._pd_lost:
            said = "request failed, no leader or no connection"
            self._log.error("util.rs:496", said, err_code="KV:PD:gRPC")
        self._pd_lost = True
        return None

    async def _report(self) -> None:
        """Heartbeats to PD, and what it wants in return."""
        while True:
            led = self._regions.led()
            stats = self._space()
            self.gauges.disk, self.gauges.leaders = stats, len(led)
            self.gauges.regions = len(self._regions.all)
            message = {"id": self._regions.id, "stats": stats, "regions": led}
            found = await self._tell_pd("heartbeat", message)
            if found is not None:
                own = str(self._regions.id)
                self._others = {int(s): a for s, a in found["stores"].items() if s != own}
                for order in found["orders"]:
                    self._regions.obey(order)
                if self._regions.changed:
                    self._meet_now.set()
            await _until(self._beat_now, self._beat_s)

    def _space(self) -> dict[str, Any]:
        """What its disk says; what it said before, where it cannot even be asked."""
        with contextlib.suppress(OSError):
            disk = os.statvfs(self._place)
            return {
                "capacity": disk.f_blocks * disk.f_frsize,
                "available": disk.f_bavail * disk.f_frsize,
                "used": sum(one.stat().st_size for one in self._place.iterdir()),
                "start": self._started,
            }
        return self.gauges.disk

    async def _meet(self) -> None:
        """Meet every other store at every tick, and stand for election where nobody leads.

        Who does not answer is waited for apart, so that the others need not.
        """
        while True:
            self._visit()
            self._measure()
            if wanted := self._regions.tick():
                await self._stand(wanted)
            if self._regions.changed:
                self._regions.changed = False
                kept = time.monotonic()
                self._regions.save()
                self.gauges.appends.add(time.monotonic() - kept)
                self._beat_now.set()
            await _until(self._meet_now, self._tick_s)

    def _visit(self) -> None:
        """Go to everybody to whom nobody is on the way."""
        for sid in self._others:
            if not self._regions.fresh(sid):
                self._miss(sid)
            if sid not in self._visits or self._visits[sid].done():
                self._began[sid] = time.monotonic()
                self._visits[sid] = asyncio.create_task(self._meet_one(sid))

    def _miss(self, sid: int) -> None:
        self.gauges.unreachable[sid] = self.gauges.unreachable.get(sid, 0) + 1
        if sid not in self._lost:
            self._lost.add(sid)
            place, said = "raft_client.rs:821", "connection aborted, store is unreachable"
            self._log.warn(place, said, store_id=sid, addr=self._others[sid])

    async def _meet_one(self, sid: int) -> None:
        """Exchange tables with a store, and take down how long that took."""
        patience_s = self._tick_s * int(self.settings["raftstore"]["raft-election-timeout-ticks"])
        number = self._regions.number
        message: dict[str, Any] = {"from": self._regions.id, "number": number}
        message["has"] = self._seen.get(sid, 0)
        if self._told.get(sid) != number:
            message["regions"] = list(self._regions.all.values())
        try:
            reply = await ask(f"http://{self._others[sid]}/raft", message, timeout_s=patience_s)
        except (OSError, TimeoutError):
            reply = Reply(0)
        found = reply.json()
        if reply.status != 200 or not isinstance(found, dict):
            self._told.pop(sid, None)
            self._took.pop(sid, None)
            return
        self._told[sid] = number
        self._took[sid] = time.monotonic() - self._began[sid]
        self._hear(sid)
        self._learn(sid, found)
        if self._regions.changed:
            self._meet_now.set()

    def _learn(self, sid: int, found: dict[str, Any]) -> None:
        """Take what is new in the table of another store, where it sent one."""
        if "regions" in found:
            self._regions.meet(found["regions"], leader=sid)
            self._regions.confirm(sid, [one["id"] for one in found["regions"]])
            self._seen[sid] = found["number"]

    def _hear(self, sid: int) -> None:
        self._regions.heard[sid] = time.monotonic()
        if sid in self._lost:
            self._lost.discard(sid)
            self._log.info("raft_client.rs:640", "connection to store is back", store_id=sid)

    def _measure(self) -> None:
        """A write is done when the quickest of the other stores has it as well."""
        if not self._took or not self.gauges.leaders:
            return
        now = time.monotonic()
        waits = {sid: now - self._began[sid] for sid, one in self._visits.items() if not one.done()}
        took_s = min(max(took, waits.get(sid, 0.0)) for sid, took in self._took.items())
        self.gauges.writes.add(took_s)
        if took_s > SLOW_S:
            self._log.warn("tracker.rs:200", "slow-query", takes=f"{took_s:.3f}s")

    async def _stand(self, wanted: dict[int, int]) -> None:
        votes = dict.fromkeys(wanted, 1)

        async def ask_one(sid: int) -> None:
            message = {"from": self._regions.id, "wanted": wanted}
            with contextlib.suppress(OSError, TimeoutError):
                url = f"http://{self._others[sid]}/vote"
                found = (await ask(url, message, timeout_s=self._tick_s * 2)).json()
                for rid in found or ():
                    votes[rid] += 1

        await asyncio.gather(*(ask_one(sid) for sid in self._others))
        for rid, term in wanted.items():
            one = self._regions.all.get(rid)
            if one is not None and one["term"] < term and votes[rid] > len(one["peers"]) // 2:
                self._regions.win(rid, term)
        if self._regions.changed:
            self._meet_now.set()

    async def _from_store(self, request: Request) -> Reply:
        message = request.json()
        if request.path == "/vote":
            return Reply.of(self._regions.vote(message["from"], message["wanted"]))
        if request.path == "/raft" and self._regions.id:
            self._hear(message["from"])
            self._learn(message["from"], message)
            if self._regions.changed:
                self._meet_now.set()
            mine: dict[str, Any] = {"number": self._regions.number}
            if message["has"] != self._regions.number:
                mine["regions"] = list(self._regions.all.values())
            return Reply.of(mine)
        return Reply(404)

    async def _from_anybody(self, request: Request) -> Reply:
        match request.method, request.path:
            case "GET", "/metrics":
                return Reply(body=page(self.gauges, VERSION, self._started).encode())
            case "GET", path if path.startswith("/region/"):
                # What it knows of a region; of one that it does not have, nothing.
                number = path.removeprefix("/region/")
                held = self._regions.all.get(int(number)) if number.isdigit() else None
                return Reply(404, b"region not found") if held is None else Reply.of(held)
            case "GET", "/status":
                return Reply()
            case "GET", "/config":
                return Reply.of(self.settings)
            case "POST", "/config":
                for name, value in request.json().items():
                    section, _, key = name.rpartition(".")
                    self.settings.setdefault(section, {})[key] = value
                return Reply()
            case _:
                return Reply(404, b"path not found")


async def _until(event: asyncio.Event, within_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
    event.clear()


def _url(address: str) -> str:
    return address if "//" in address else f"http://{address}"


def main() -> None:
    """Read the words of the command line as tikv-server does, and serve."""
    parser = argparse.ArgumentParser(prog="tikv-server", allow_abbrev=False)
    for name in ("addr", "advertise-addr", "status-addr", "advertise-status-addr"):
        parser.add_argument(f"--{name}", default="")
    for name in ("pd-endpoints", "data-dir", "config", "log-file"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("-V", "--version", action="version", version=f"Release Version: {VERSION}")
    words = parser.parse_args()
    if not (words.addr and words.status_addr and words.pd_endpoints and words.data_dir):
        parser.error("it needs --addr, --status-addr, --pd-endpoints and --data-dir")
    log = Log(words.log_file)
    try:
        asyncio.run(Store(words, log).run())
    except KeyboardInterrupt:
        sys.exit(0)
    except OSError as problem:
        log.line("FATAL", "lib.rs:497", "failed to start", err=problem)
        os._exit(1)
