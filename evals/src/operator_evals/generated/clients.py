"""What clients of a rig see while it is broken: an oracle that knows no causes.

Clients are our own, go through the links of the rig as all clients do, and read their credentials
before anything is broken.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from operator_evals.generated.observed import Look
from operator_evals.generated.servers import Holder, Server
from operator_evals.score import quantile
from operator_lab.load_clients import Asked, HttpNode, Reply, SqlNode
from operator_lab.manifest import HOST, LOAD, own_home
from operator_lab.rig import Rig, RunState
from operator_lab.startup import answers

__all__ = ["Canary", "ClientView", "Endpoint", "endpoint_of"]

EVERY_S = 0.5
# What must be asked of servers is asked less often.
ROLES_EVERY = 2
CANARY_S_MAX = 3.5
# The time limit of Operator for a request: what is slower fails for both.
ANSWER_S_MAX = 2.0
LOOKS_MAX = 4_000
_PASSFILE = re.compile(r"passfile=(\S+)")


class Endpoint:
    """One server as its clients use it; its port where the rig does not describe a client."""

    def __init__(self, client: Asked | None, port: int, path: str) -> None:
        self._client = client
        self._port, self._path = port, path

    async def ask(self, turn: int) -> bool:
        """Whether one request is answered well and in time."""
        if self._client is None:
            return await answers(self._port, path=self._path, within_s=ANSWER_S_MAX)
        return await self._client.ask(turn) is Reply.GOOD

    async def close(self) -> None:
        """Hang up."""
        if self._client is not None:
            await self._client.close()


def endpoint_of(rig: Rig, name: str, scratch: Path) -> Endpoint | None:
    """The client of a part; None where clients use other parts of the rig."""
    manifest = rig.manifest()
    spec, load = manifest.process(name), manifest.spec.load
    port = manifest.public_port(name)
    if load is None:
        return Endpoint(None, port, spec.ready_path if not spec.ready_argv else "")
    if load.kind != spec.kind:
        return None
    if not load.statement:
        return Endpoint(HttpNode(HOST, port, path=load.path, body=load.body), port, "")
    dsn = _PASSFILE.sub(lambda match: f"passfile={_own_copy(rig, match[1], scratch)}", load.dsn)
    return Endpoint(SqlNode(port, dsn=dsn, statement=load.statement), port, "")


def _own_copy(rig: Rig, path: str, scratch: Path) -> Path:
    source = own_home(rig.directory, LOAD) / path
    copy = scratch / f"client-{source.name}"
    if not copy.exists():
        shutil.copyfile(source, copy)
        copy.chmod(0o600)
    return copy


class Canary:
    """Writes that were acknowledged, and whether they can be read."""

    def __init__(
        self,
        *,
        acknowledged_at: Callable[[], float | None],
        reads: Callable[[], Awaitable[bool | None]],
    ) -> None:
        self._acknowledged_at = acknowledged_at
        self._reads = reads

    def writes(self) -> bool | None:
        """Whether a write was acknowledged recently; None where there never was one."""
        at = self._acknowledged_at()
        return None if at is None else time.monotonic() - at < CANARY_S_MAX

    async def reads(self) -> bool | None:
        """Whether the last writes are there."""
        return await self._reads()


class ClientView:
    """Uses a rig as its clients do, twice a second, from `start` to `stop`."""

    def __init__(
        self,
        rig: Rig,
        servers: Mapping[str, Server],
        canary: Canary,
        *,
        since: Callable[[], float],
        scratch: Path,
    ) -> None:
        self._rig = rig
        self._servers = servers
        self._canary = canary
        self._since = since
        names = [process.name for process in rig.manifest().spec.processes]
        made = {name: endpoint_of(rig, name, scratch) for name in names}
        self._endpoints = {name: each for name, each in made.items() if each is not None}
        self._task: asyncio.Task[None] | None = None
        self._looks: list[Look] = []
        self._lags_s: list[float] = []
        self._count = 0

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Look no more; also twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            for endpoint in self._endpoints.values():
                await endpoint.close()

    @property
    def looks(self) -> Sequence[Look]:
        """What was seen, equal looks in a row as one."""
        return tuple(self._looks)

    @property
    def lag_s(self) -> float:
        """How late this process was woken, in 9 of 10 cases at most."""
        return round(quantile(self._lags_s, 0.9) or 0.0, 3)

    async def _watch(self) -> None:
        turn = 0
        last: Look | None = None
        while self._count < LOOKS_MAX:
            began = time.monotonic()
            look = await self._look(turn, last)
            last = look
            self._count += 1
            same = self._looks and replace(self._looks[-1], at_s=0.0, until_s=0.0) == replace(
                look, at_s=0.0, until_s=0.0
            )
            if same:
                self._looks[-1] = replace(self._looks[-1], until_s=look.until_s)
            else:
                self._looks.append(look)
            turn += 1
            wanted_s = max(0.05, EVERY_S - (time.monotonic() - began))
            slept = time.monotonic()
            await asyncio.sleep(wanted_s)
            self._lags_s.append(time.monotonic() - slept - wanted_s)

    async def _look(self, turn: int, last: Look | None) -> Look:
        at_s = self._since()
        served = await asyncio.gather(*(each.ask(turn) for each in self._endpoints.values()))
        ask_roles = last is None or turn % ROLES_EVERY == 0
        writers = await self._writers() if last is None or ask_roles else last.writers
        reads = await self._canary.reads() if last is None or ask_roles else last.reads
        doubled = await self._find_doubled() if last is None or ask_roles else last.doubled
        return Look(
            at_s=round(at_s, 2),
            until_s=round(self._since(), 2),
            served=tuple(
                sorted(name for name, good in zip(self._endpoints, served, strict=True) if good)
            ),
            writes=self._canary.writes(),
            reads=reads,
            writers=writers,
            running=self._running(),
            doubled=doubled,
        )

    async def _writers(self) -> tuple[str, ...] | None:
        if not self._servers:
            return None
        found = await asyncio.gather(*(each.takes_writes() for each in self._servers.values()))
        return tuple(
            sorted(name for name, takes in zip(self._servers, found, strict=True) if takes)
        )

    async def _find_doubled(self) -> tuple[str, ...]:
        """The roles that more than one part says it has."""
        holders = [each for each in self._servers.values() if isinstance(each, Holder)]
        held = await asyncio.gather(*(each.holds() for each in holders))
        counts = Counter(role for roles in held for role in roles or ())
        return tuple(sorted(role for role, count in counts.items() if count > 1))

    def _running(self) -> dict[str, str]:
        """Which process each part is; "" where it is gone or stopped."""
        states = {
            each.name: f"{each.process.pid}@{each.process.started:.2f}"
            for each in self._rig.status().processes
            if each.process is not None and each.state is RunState.RUNNING
        }
        parts = (process.name for process in self._rig.manifest().spec.processes)
        return {name: states.get(name, "") for name in parts}
