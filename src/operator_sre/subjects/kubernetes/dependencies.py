"""Which workload depends on which: addresses in environments, observed calls, names in logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from operator_sre.subjects.kubernetes.snapshot import Service, Snapshot, Workload

__all__ = ["Address", "addresses_of", "callers_below", "calls_between", "error_lines", "service_at"]

_ADDRESS = re.compile(r"(?:^|//|@|,)([a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*):(\d{2,5})(?=$|[/,?])")
_HOST_NAME = re.compile(r"(?:HOST|ADDR|ADDRESS|SERVICE|SERVER|URL|URI|ENDPOINT)$")
_PLAIN_HOST = re.compile(r"^(?:\w+://)?([a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*)/?$")
_TROUBLE = re.compile(
    r"error|fail|refused|unavailable|timed? ?out|no such host|denied|unable|cannot|could not"
    r"|unreachable|reset|exception|not known|deadline|fatal|panic|already in use|no space left"
    r"|too many|expired",
    re.IGNORECASE,
)
_CLUSTER_WORDS = frozenset({"svc", "cluster", "local"})


@dataclass(frozen=True, slots=True)
class Address:
    """A host and perhaps a port that a workload is configured to use, and by which variable."""

    variable: str
    host: str
    port: int | None = None

    @property
    def name(self) -> str:
        """The first word of the host, which is the service in a cluster."""
        return self.host.partition(".")[0]

    @property
    def internal(self) -> bool:
        """Whether it names a service of the cluster."""
        words = self.host.split(".")
        return len(words) <= 2 or bool(_CLUSTER_WORDS & set(words))


def addresses_of(workload: Workload) -> Iterator[Address]:
    """The addresses in the environment of a workload."""
    for container in workload.spec.containers:
        for variable, value in container.env.items():
            found = list(_ADDRESS.finditer(value))
            for match in found:
                yield Address(variable, match.group(1), int(match.group(2)))
            plain = _PLAIN_HOST.match(value)
            if not found and plain and _HOST_NAME.search(variable.upper()):
                beside = container.env.get(_HOST_NAME.sub("PORT", variable.upper()), "")
                port = int(beside) if beside.isdecimal() else None
                yield Address(variable, plain.group(1), port)


def service_at(snapshot: Snapshot, host: str) -> Service | None:
    """The service of that name or address."""
    name = host.partition(".")[0]
    for service in snapshot.services:
        if host == service.address or name == service.name:
            return service
    return None


def calls_between(snapshot: Snapshot) -> dict[str, set[str]]:
    """Which workloads each workload calls."""
    behind = {
        service.name: {workload.name for workload in snapshot.select_workloads(service)}
        or {service.name}
        for service in snapshot.services
    }
    found = {name: set(called) for name, called in snapshot.calls.items()}
    for workload in snapshot.workloads:
        for address in addresses_of(workload):
            if address.name in behind:
                found.setdefault(workload.name, set()).update(behind[address.name])
    return {name: called - {name} for name, called in found.items()}


def callers_below(calls: Mapping[str, set[str]], target: str) -> set[str]:
    """Everything that depends on a workload, directly or not."""
    found: set[str] = set()
    waiting = [target]
    while waiting:
        name = waiting.pop()
        for caller, called in calls.items():
            if name in called and caller not in found:
                found.add(caller)
                waiting.append(caller)
    return found


def error_lines(snapshot: Snapshot, workload: str) -> list[str]:
    """The lines of a workload's log that report trouble."""
    return [line for line in snapshot.logs.get(workload, ()) if _TROUBLE.search(line)]
