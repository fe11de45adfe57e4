"""The containers of one project, found by their labels and never by a part of a name."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import re
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from operator_protocols.domain.stack import ServiceState, ServiceStatus
from operator_protocols.errors import RigError
from operator_sre.executor.docker.answers import Container
from operator_sre.executor.docker.engine import Answer, Engine

__all__ = ["PROJECT_LABEL", "SERVICE_LABEL", "Containers", "Row", "at_once"]

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

    def told(self) -> ServiceStatus:
        """How it is, in our words."""
        exited = _EXITED.search(self.status)
        return ServiceStatus(
            name=self.service,
            state=self._state(),
            container=self.names[0].removeprefix("/") if self.names else self.id[:12],
            image=self.image,
            ports=tuple(sorted({each.public_port for each in self.ports if each.public_port})),
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
        """Every container of it, by its service; of two the one that runs."""
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
                next_step="Start it anew before anything else.",
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
            raise RigError(f"Docker does not {verb} {service!r}: {answer.message}.")

    async def leave(self, service: str, network: str) -> None:
        """Take it off a network."""
        row = await self.row(service)
        body = {"Container": row.id, "Force": True}
        _done(await self.engine.ask("POST", f"/networks/{network}/disconnect", body=body), service)

    async def join(self, service: str, network: str, aliases: list[str]) -> None:
        """Put it on a network again, by the names that it had there."""
        row = await self.row(service)
        body = {"Container": row.id, "EndpointConfig": {"Aliases": aliases}}
        _done(await self.engine.ask("POST", f"/networks/{network}/connect", body=body), service)


def _read(answer: Answer, kind: type[T]) -> T:
    if not answer.ok:
        raise RigError(f"Docker refused: {answer.message}.")
    return answer.read(kind)


def _done(answer: Answer, service: str) -> None:
    if not answer.ok:
        raise RigError(f"Docker does not change the network of {service!r}: {answer.message}.")


def at_once(asking: Coroutine[Any, Any, T]) -> T:
    """The answer to something that is awaited, for who cannot wait; it is bounded by itself."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, asking).result()
