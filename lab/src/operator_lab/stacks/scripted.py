"""A DeploymentTarget that runs nothing: for tests, and for trying a plug-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operator_protocols.domain.stack import ServiceState, ServiceStatus
from operator_protocols.errors import NotFoundError, RigError

__all__ = ["ScriptedTarget"]


class ScriptedTarget:
    """Services by their names, each with what it says when it starts; `{n}` is how often it did.

    `ailing` never become well. `volumes` is what their data would be: the number of their starts,
    kept until it is asked to go.
    """

    def __init__(self, says: Mapping[str, str], *, ailing: Sequence[str] = ()) -> None:
        self._says = dict(says)
        self._ailing = frozenset(ailing)
        self._states: dict[str, ServiceState] = {}
        self._said: list[tuple[str, str]] = []
        self.volumes: dict[str, int] = {}

    async def up(self) -> Sequence[ServiceStatus]:
        """Start all of it."""
        for name in self._says:
            if self._states.get(name) is not ServiceState.HEALTHY:
                self._start(name)
        self._be_well(self._says)
        return await self.status()

    async def down(self, *, volumes: bool = False) -> None:
        """End all of it."""
        self._states.clear()
        self._said.clear()
        if volumes:
            self.volumes.clear()

    async def status(self) -> Sequence[ServiceStatus]:
        """Every service as it is now."""
        missing = ServiceState.MISSING
        names = sorted(self._says)
        return tuple(ServiceStatus(name, self._states.get(name, missing)) for name in names)

    async def logs(self, service: str | None = None, *, lines: int = 100) -> Sequence[str]:
        """The last lines."""
        chosen = self._select(service)
        return tuple(
            f"{name} | {text}"
            for service in chosen
            for name, text in [line for line in self._said if line[0] == service][-lines:]
        )

    async def restart(self, service: str | None = None) -> Sequence[ServiceStatus]:
        """Restart one service, or all."""
        chosen = self._select(service)
        for name in chosen:
            self._start(name)
        self._be_well(chosen)
        return await self.status()

    def kill(self, service: str) -> None:
        """End one, as a crash would."""
        self._states[service] = ServiceState.EXITED

    def _select(self, service: str | None) -> Sequence[str]:
        if service is None:
            return tuple(self._says)
        if service not in self._says:
            raise NotFoundError(
                f"There is no service {service!r}.", next_step=f"It has {', '.join(self._says)}."
            )
        return (service,)

    def _start(self, name: str) -> None:
        ill = name in self._ailing
        self._states[name] = ServiceState.UNHEALTHY if ill else ServiceState.HEALTHY
        self.volumes[name] = self.volumes.get(name, 0) + 1
        self._said.append((name, self._says[name].replace("{n}", str(self.volumes[name]))))

    def _be_well(self, names: Sequence[str] | Mapping[str, str]) -> None:
        for name in names:
            if name in self._ailing:
                line = next(text for who, text in reversed(self._said) if who == name)
                raise RigError(f"{name} did not become healthy; its last line was {line!r}.")
