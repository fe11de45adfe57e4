"""Where a whole system is deployed: brought up, looked after, and taken down without a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.stack import ServiceStatus

__all__ = ["Deploying", "DeploymentTarget", "Tending"]


@runtime_checkable
class Deploying(Protocol):
    """Bring it up, take it down."""

    async def up(self) -> Sequence[ServiceStatus]:
        """Start all of it and wait until it is well; RigError says what did not come up."""
        ...

    async def down(self, *, volumes: bool = False) -> None:
        """End all of it; its data too, where asked. Fine when there is nothing."""
        ...


@runtime_checkable
class Tending(Protocol):
    """Look after what is up. A service that does not exist is a NotFoundError."""

    async def status(self) -> Sequence[ServiceStatus]:
        """Every service as it is now, also those that are gone, in the order of their names."""
        ...

    async def logs(self, service: str | None = None, *, lines: int = 100) -> Sequence[str]:
        """The last lines of one service, or of all, each begun by the name of who said it."""
        ...

    async def restart(self, service: str | None = None) -> Sequence[ServiceStatus]:
        """Start one service anew, or all, and wait until they are well."""
        ...


@runtime_checkable
class DeploymentTarget(Deploying, Tending, Protocol):
    """One place for one system, such as the containers of a project on this machine."""
