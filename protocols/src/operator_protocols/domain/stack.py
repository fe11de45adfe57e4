"""A Stack is a copy of a Subject in containers, described by a compose file and a few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["ServiceState", "ServiceStatus", "StackService", "StackSpec"]


@dataclass(frozen=True, slots=True)
class StackService:
    """One service of a compose file that is a target: how it is watched, broken and repaired.

    `port_variable` names the variable that says on which port of the host it answers. `endpoints`
    are further addresses of it, such as those by which others in the stack know it; in them
    `{VARIABLE}` is the value of one. With a `disk`, its data lies in a volume of
    its own size, which is at that path in the service that keeps all of them. What has a `relay` is
    reached by others in the stack through the service that passes everything on.
    `opened_by` names the secret of the stack that is its password.
    """

    name: str
    kind: str
    port_variable: str
    depends_on: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    disk: str = ""
    relay: bool = False
    opened_by: str = ""


@dataclass(frozen=True, slots=True)
class StackSpec:
    """Everything that is needed to bring a stack up.

    `folder` holds `compose.yaml` and all that it mounts. `ports` are the variables for ports of the
    host with their default values; `settings` are all others that may be set. `secrets` are
    generated for each deployment, and mounted as files. `keeper` is the service that keeps volumes
    of a size, `relay` the service that forwards to services behind it. `options` are given
    to the subject that observes it.
    """

    subject: str
    folder: str
    services: tuple[StackService, ...]
    ports: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    keeper: str = ""
    relay: str = ""
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)


class ServiceState(StrEnum):
    """Where a service stands, by what the engine and its own health check say."""

    HEALTHY = "healthy"
    RUNNING = "running"
    STARTING = "starting"
    UNHEALTHY = "unhealthy"
    PAUSED = "paused"
    EXITED = "exited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One service of a deployment as it is now; `ports` are those of the host."""

    name: str
    state: ServiceState
    container: str = ""
    image: str = ""
    ports: tuple[int, ...] = ()
    exit_code: int | None = None

    @property
    def well(self) -> bool:
        """It runs, and no check of its own says otherwise."""
        return self.state in (ServiceState.HEALTHY, ServiceState.RUNNING)
