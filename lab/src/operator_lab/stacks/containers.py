"""The containers of one project, found by their labels, and the volumes that they keep."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import re
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.stack import ServiceState, ServiceStatus
from operator_protocols.errors import RigError
from operator_protocols.ports import Job
from operator_sre.executor.docker.answers import Container
from operator_sre.executor.docker.engine import Answer, Engine
from operator_sre.executor.docker.execs import Inside, run_inside

__all__ = ["PROJECT_LABEL", "SERVICE_LABEL", "Containers", "Disks", "Row", "at_once"]

PROJECT_LABEL = "com.docker.compose.project"
SERVICE_LABEL = "com.docker.compose.service"
ONE_OFF_LABEL = "com.docker.compose.oneoff"
_EXITED = re.compile(r"Exited \((\d+)\)")
_HEALTH = {
    "(healthy)": ServiceState.HEALTHY,
    "(unhealthy)": ServiceState.UNHEALTHY,
    "(health: starting)": ServiceState.STARTING,
}

T = TypeVar("T")


class Port(msgspec.Struct, rename="pascal"):
    """One port of a container, and that of the host behind which it is."""

    private_port: int
    public_port: int = 0


class Row(msgspec.Struct, rename="pascal"):
    """A container as the engine lists it."""

    id: str
    names: list[str]
    image: str = ""
    state: str = ""
    status: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    ports: list[Port] = msgspec.field(default_factory=list)

    @property
    def service(self) -> str:
        """Which service of the project it is."""
        return self.labels.get(SERVICE_LABEL, "")

    def to_status(self) -> ServiceStatus:
        """How it is, in our words."""
        exited = _EXITED.search(self.status)
        return ServiceStatus(
            name=self.service,
            state=self._state(),
            container=self.names[0].removeprefix("/") if self.names else self.id[:12],
            image=self.image,
            ports=tuple(sorted({port.public_port for port in self.ports if port.public_port})),
            exit_code=int(exited[1]) if exited else None,
        )

    def _state(self) -> ServiceState:
        if self.state == "paused":
            return ServiceState.PAUSED
        if self.state != "running":
            restarting = self.state == "restarting"
            return ServiceState.UNHEALTHY if restarting else ServiceState.EXITED
        health = (state for word, state in _HEALTH.items() if word in self.status)
        return next(health, ServiceState.RUNNING)


class Containers:
    """What the engine has of a project."""

    def __init__(self, project: str, engine: Engine | None = None) -> None:
        self.project = project
        self.engine = engine or Engine()

    async def reach(self) -> None:
        """EngineError where no engine answers."""
        await self.engine.ask("GET", "/_ping")

    async def rows(self) -> Mapping[str, Row]:
        """Every container of it, by its service; of two the running one."""
        labels = [f"{PROJECT_LABEL}={self.project}"]
        answer = await self.engine.ask(
            "GET",
            "/containers/json",
            parameters={"all": "true", "filters": json.dumps({"label": labels})},
        )
        found: dict[str, Row] = {}
        for row in _read(answer, list[Row]):
            one_off = row.labels.get(ONE_OFF_LABEL, "").lower() == "true"
            if one_off or (row.service in found and row.state != "running"):
                continue
            found[row.service] = row
        return found

    async def row(self, service: str) -> Row:
        """The container of a service; RigError when there is none."""
        row = (await self.rows()).get(service)
        if row is None:
            raise RigError(
                f"{service!r} has no container in the project {self.project!r}.",
                next_step="Start it again first.",
            )
        return row

    async def inspect(self, service: str) -> Container:
        """All that the engine knows of it."""
        row = await self.row(service)
        return _read(await self.engine.ask("GET", f"/containers/{row.id}/json"), Container)

    async def tell(
        self, service: str, verb: str, *, parameters: Mapping[str, str] | None = None
    ) -> None:
        """Have one thing done to it: kill, pause, unpause, restart, start."""
        row = await self.row(service)
        answer = await self.engine.ask(
            "POST", f"/containers/{row.id}/{verb}", parameters=parameters, timeout_s=60.0
        )
        if not answer.ok:
            raise RigError(f"Docker cannot {verb} {service!r}: {answer.message}.")

    async def leave(self, service: str, network: str) -> None:
        """Take it off a network."""
        row = await self.row(service)
        body = {"Container": row.id, "Force": True}
        _require_ok(
            await self.engine.ask("POST", f"/networks/{network}/disconnect", body=body), service
        )

    async def join(self, service: str, network: str, aliases: list[str]) -> None:
        """Put it on a network again, by the names that it had there."""
        row = await self.row(service)
        body = {"Container": row.id, "EndpointConfig": {"Aliases": aliases}}
        _require_ok(
            await self.engine.ask("POST", f"/networks/{network}/connect", body=body), service
        )


def _read(answer: Answer, kind: type[T]) -> T:
    if not answer.ok:
        raise RigError(f"Docker refused: {answer.message}.")
    return answer.read(kind)


def _require_ok(answer: Answer, service: str) -> None:
    if not answer.ok:
        raise RigError(f"Docker cannot change the network of {service!r}: {answer.message}.")


def at_once(asking: Coroutine[Any, Any, T]) -> T:
    """The answer to something that is awaited, for who cannot wait; it is bounded by itself."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, asking).result()


FILLER = ".operator-filler"
EXEC_S_MAX = 60.0
# A page or two: too little to write anything.
FULL_KB = 64
# `f` is what is free, in kilobytes; others write meanwhile, so it is read again.
_FILL = """\
set -e
cd "$1"
for round in 1 2 3; do
  f=$(df -Pk . | awk 'NR==2 {print $4}')
  more=$((f - $2))
  [ "$more" -gt 0 ] || break
  dd if=/dev/zero bs=1048576 count="$((more / 1024))" >> "$3" 2>/dev/null || true
  dd if=/dev/zero bs=1024 count="$((more % 1024))" >> "$3" 2>/dev/null || true
done
"""


class Disks:
    """The volumes of one stack. All is done by a shell in the service `keeper`."""

    def __init__(self, containers: Containers, keeper: str) -> None:
        self._containers = containers
        self._keeper = keeper

    async def fill(self, place: str, *, left_bytes: int) -> None:
        """Leave only so much room in a volume."""
        await self._sh(_FILL, place, str(left_bytes // 1024), FILLER)

    async def drain(self, place: str) -> None:
        """Give back what was used up."""
        await self._sh('rm -f "$1/$2"', place, FILLER)

    async def full(self, places: list[str]) -> frozenset[str]:
        """The places that were filled, or have no room left."""
        script = (
            'for d in "$@"; do f=$(df -Pk "$d" | awk \'NR==2 {print $4}\');'
            f' if [ -e "$d/{FILLER}" ] || [ "$f" -lt {FULL_KB} ]; then echo "$d"; fi; done'
        )
        return frozenset((await self._sh(script, *places)).split())

    async def _sh(self, script: str, *words: str) -> str:
        row = await self._containers.row(self._keeper)
        inside = Inside(row.id, ("sh", "-c", script, "sh", *words), user="0")
        result = await run_inside(self._containers.engine, inside, Job(timeout_s=EXEC_S_MAX))
        if result.outcome is not Outcome.RAN or result.exit_code != 0:
            output = " ".join(result.stderr.split())[:300]
            raise RigError(f"The volumes of the stack cannot be changed: {output or 'no answer'}.")
        return result.stdout
