"""What watching costs: thousands of HTTP targets by one process on one core.

    .venv/bin/python benchmarks/monitor.py [--cycles 6] [--large]

The monitor, the desk and the SQLite store are the product's, the subject is the declarative one,
and each target is a server on a port of its own. The servers run on the other core. Promises, for
2,000 targets every 5 s and (with --large) 10,000 every 30 s: no cycle is missed, under 300 MB, a
target that is killed has its ticket within one interval and its time-out. The same holds when some
of them hang, drip, reset, send garbage or have a broken certificate, and the others stay healthy.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from operator_protocols.domain.health import Health
from operator_protocols.domain.target import Access, Target
from operator_protocols.ports import Plugin, Subject, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.engine.local import Rounds
from operator_sre.monitor import Monitor, Watched, WatchStats
from operator_sre.store import Store, open_store
from operator_sre.tickets import Desk

TIMEOUT_S = 2.0
MEMORY_MB_MAX = 300.0
KILLS = 3
BAD_KINDS = ("hangs", "drips", "resets", "garbage", "certificate")
BAD_SHARE = 0.05
# When others have our core for longer than this, the figures say nothing about us.
BUSY_SHARE = 0.1
_DESCRIPTION = """
name: web
probes:
  page: {http: {path: /}}
invariants:
  answers: {holds: page.ok, severity: critical}
"""
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b'content-length: 15\r\n\r\n{"status":"up"}'
)


class _Good(asyncio.Protocol):
    """A server that answers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER)
        self._transport.close()


class _Hangs(asyncio.Protocol):
    """A server that takes the question and never answers."""


class _Resets(asyncio.Protocol):
    """A server that hangs up at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


class _Garbage(_Good):
    """A server that speaks no HTTP."""

    def data_received(self, data: bytes) -> None:
        self._transport.write(os.urandom(512))
        self._transport.close()


class _Drips(_Good):
    """A server whose answer never ends."""

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        self._drip()

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b".")
            asyncio.get_running_loop().call_later(0.2, self._drip)


_PROTOCOLS = {"hangs": _Hangs, "drips": _Drips, "resets": _Resets, "garbage": _Garbage}


def serve(kinds: Sequence[str], pipe: Connection, core: int, folder: str) -> None:
    """One server on a port of its own for each kind; ends those whose number it is told."""
    os.sched_setaffinity(0, {core})
    asyncio.run(_serve(kinds, pipe, Path(folder)))


async def _serve(kinds: Sequence[str], pipe: Connection, folder: Path) -> None:
    loop = asyncio.get_running_loop()
    context = _broken_certificate(folder) if "certificate" in kinds else None
    servers = [
        await loop.create_server(
            _PROTOCOLS.get(kind, _Good),
            "127.0.0.1",
            0,
            ssl=context if kind == "certificate" else None,
            backlog=16,
        )
        for kind in kinds
    ]
    pipe.send([one.sockets[0].getsockname()[1] for one in servers])
    while (number := await loop.run_in_executor(None, pipe.recv)) is not None:
        servers[number].close()
        pipe.send(time.monotonic())


def _broken_certificate(folder: Path) -> ssl.SSLContext:
    """One that nobody has signed, and that is over."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=9))
        .not_valid_after(now - timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "certificate.pem"
    file.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@dataclass(slots=True)
class Figures:
    """What one round of the benchmark came to."""

    looks: int = 0
    missed: int = 0
    look_s: list[float] = field(default_factory=list)
    cpu_share: float = 0.0
    memory_mb: float = 0.0
    detected_s: list[float] = field(default_factory=list)
    wrong: int = 0
    store_mb: float = 0.0
    waited_s: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How many targets, how often, for how long."""

    title: str
    targets: int
    interval_s: float
    cycles: int
    bad: bool = False

    def kinds(self) -> list[str]:
        """What each target is; the bad ones are spread among the others."""
        every = int(1 / BAD_SHARE)
        return [
            BAD_KINDS[number // every % len(BAD_KINDS)]
            if self.bad and number % every == 1
            else "good"
            for number in range(self.targets)
        ]


class Watching:
    """The product's monitor on one core, and what became of it."""

    def __init__(self, plan: Plan, ports: Sequence[int], folder: Path, pipe: Connection) -> None:
        self._plan, self._pipe = plan, pipe
        self._kinds = plan.kinds()
        self._targets = tuple(map(_target, range(plan.targets), self._kinds, ports))
        clock = SystemClock()
        self._store: Store = open_store(folder / "operator.db", clock=clock)
        self._path = folder / "operator.db"
        self._monitor = Monitor(
            clock=clock,
            conditions=self._store.conditions,
            observations=self._store.observations,
            timeout_s=max(3 * TIMEOUT_S, plan.interval_s),
            blind_grace_s=2 * plan.interval_s,
        )
        self._desk = Desk(
            tickets=self._store.tickets,
            leases=self._store.leases,
            stable_s=10.0,
            journal=self._store.journal,
        )
        self._subject = _subject(self._targets, clock, folder)
        self._stats = WatchStats()
        self._rounds = Rounds(
            check=self._look,
            clock=clock,
            interval_of=lambda subject: plan.interval_s,
            stats=self._stats,
            worker="benchmark",
            watchers=self._store.watchers,
        )
        self._opened: asyncio.Queue[str] = asyncio.Queue()
        self._figures = Figures()

    async def _look(self, name: str) -> None:
        begun, kinds = time.monotonic(), list(self._kinds)
        watched = await self._monitor.watch(self._subject)
        for ticket in await self._desk.file(watched.violations, watched.targets):
            for violation in ticket.violations:
                self._opened.put_nowait(violation.target)
        at = watched.check.observation.at
        await self._desk.flag(name, watched.conditions, at)
        await self._desk.recover(name, watched.conditions, at)
        self._figures.look_s.append(time.monotonic() - begun)
        self._judge(watched, kinds)

    def _judge(self, watched: Watched, before: Sequence[str]) -> None:
        """Count good targets that are not seen as healthy, and bad ones that are.

        What died while it was looked at may have been seen either way.
        """
        health = {
            one.target: one.health for one in watched.conditions if one.invariant != "observable"
        }
        for target, kind, now in zip(self._targets, before, self._kinds, strict=True):
            if kind != now:
                continue
            well = health.get(target.name) is Health.HEALTHY
            self._figures.wrong += well is not (kind == "good")

    async def run(self) -> Figures:
        """Watch for as many cycles as planned, then see targets die."""
        cpu, begun, waited = time.process_time(), time.monotonic(), _waited_s()
        watching = asyncio.ensure_future(self._rounds.run(["web"]))
        await asyncio.sleep(self._plan.cycles * self._plan.interval_s)
        self._figures.cpu_share = (time.process_time() - cpu) / (time.monotonic() - begun)
        for number in range(KILLS):
            await self._kill(number * 20)
        (watch,) = self._stats.watches()
        self._figures.looks, self._figures.missed = watch.looks, watch.missed
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        self._figures.memory_mb = _memory_mb()
        self._figures.waited_s = _waited_s() - waited
        self._figures.seconds = time.monotonic() - begun
        self._store.close()
        self._figures.store_mb = self._path.stat().st_size / 1e6
        return self._figures

    async def _kill(self, number: int) -> None:
        # At any moment of the interval, not just when a look begins.
        await asyncio.sleep((number % 7) / 7 * self._plan.interval_s)
        loop = asyncio.get_running_loop()
        self._kinds[number] = "killed"
        self._pipe.send(number)
        died = await loop.run_in_executor(None, self._pipe.recv)
        try:
            async with asyncio.timeout(3 * (self._plan.interval_s + TIMEOUT_S)):
                while await self._opened.get() != f"web-{number}":
                    pass
        except TimeoutError:
            self._figures.detected_s.append(math.inf)
            return
        self._figures.detected_s.append(time.monotonic() - died)


def _target(number: int, kind: str, port: int) -> Target:
    access = Access(tls=True) if kind == "certificate" else None
    return Target(f"web-{number}", "web", port=port, access=access)


def _subject(targets: Sequence[Target], clock: SystemClock, folder: Path) -> Subject:
    file = folder / "web.yaml"
    file.write_text(_DESCRIPTION)
    plugin: Plugin = import_module("operator_sre.subjects.declarative").plugin
    options = {"file": str(file)}
    return plugin.subject(SubjectSettings("web", lambda: targets, clock, TIMEOUT_S, options))


def _waited_s() -> float:
    """How long this process wanted its core and somebody else had it."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def _memory_mb() -> float:
    """The most that this process ever had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def watch(plan: Plan, ports: Sequence[int], core: int, pipe: Connection, results: Any) -> None:
    """One round, in a process of its own on one core."""
    os.sched_setaffinity(0, {core})
    with tempfile.TemporaryDirectory() as folder:
        results.put(asyncio.run(Watching(plan, ports, Path(folder), pipe).run()))


def measure(plan: Plan) -> bool:
    """Servers on one core, the monitor on the other; True when every promise was kept."""
    cores = sorted(os.sched_getaffinity(0))
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    results = spawn.Queue()
    with tempfile.TemporaryDirectory() as folder:
        servers = spawn.Process(target=serve, args=(plan.kinds(), there, cores[-1], folder))
        servers.start()
        ports = here.recv()
        monitor = spawn.Process(target=watch, args=(plan, ports, cores[0], here, results))
        monitor.start()
        limit_s = (plan.cycles + 4 * KILLS) * plan.interval_s + 60.0
        try:
            figures: Figures = results.get(timeout=limit_s)
        finally:
            monitor.join(10.0)
            monitor.kill()
            servers.kill()
    return _tell(plan, figures)


def _tell(plan: Plan, one: Figures) -> bool:
    limit_s = plan.interval_s + TIMEOUT_S
    detected = max(one.detected_s)
    promises = {
        f"missed {one.missed} of {one.looks} cycles (none)": one.missed == 0,
        f"{one.memory_mb:.0f} MB (under {MEMORY_MB_MAX:.0f})": one.memory_mb < MEMORY_MB_MAX,
        f"killed is found after {detected:.1f} s at most (within {limit_s:g})": detected <= limit_s,
        f"{one.wrong} targets misjudged (none)": one.wrong == 0,
    }
    look = sorted(one.look_s)
    say(f"{plan.title}: {plan.targets} targets every {plan.interval_s:g} s")
    say(
        f"  a look takes {look[len(look) // 2]:.2f} s (half), {look[-1]:.2f} s (worst),"
        f" {one.cpu_share:.0%} of a core, store {one.store_mb:.1f} MB"
    )
    if one.waited_s > BUSY_SHARE * one.seconds:
        say(f"  the machine is busy: others had the core for {one.waited_s:.0f} s meanwhile")
    for promise, kept in promises.items():
        say(f"  {'ok  ' if kept else 'MISS'} {promise}")
    return all(promises.values())


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=6)
    parser.add_argument("--large", action="store_true", help="10,000 targets too")
    given = parser.parse_args()
    plans = [
        Plan("all well", 2000, 5.0, given.cycles),
        Plan("one in twenty is bad", 2000, 5.0, given.cycles, bad=True),
    ]
    if given.large:
        plans.append(Plan("many", 10_000, 30.0, max(2, given.cycles // 3)))
    kept = [measure(plan) for plan in plans]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
