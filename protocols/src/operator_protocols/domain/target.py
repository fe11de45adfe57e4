"""A Target is one part of a Subject."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Access", "Initiator", "Process", "Target", "dependencies_of"]


@dataclass(frozen=True, slots=True)
class Process:
    """One process on this machine. The start time tells it from a later one with the same pid."""

    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class Initiator:
    """The process that starts an action: its machine, boot and process id."""

    host: str
    boot: str
    process: Process


@dataclass(frozen=True, slots=True)
class Access:
    """How to authenticate to a target. Secrets are in files, which are read at every check.

    With a `user` it is basic authentication, with a `token_file` alone a bearer token. `ca_file`
    says whom to trust instead of the machine's own list, `certificate_file` and `key_file` say who
    we are, and `server_name` is expected in the certificate instead of the host.
    """

    tls: bool = False
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    server_name: str = ""
    user: str = ""
    password_file: str = ""
    token_file: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """One part of a Subject: what it is, where it answers, what it needs to work.

    `endpoints` are further addresses (`host:port`) at which the same target answers, tried in
    their order when the first one does not. `runs_at` says where its commands run: this machine, or
    `ssh://user@host`, `docker://container`, `kubectl://context/namespace/pod/container`.
    """

    name: str
    kind: str
    host: str = "127.0.0.1"
    port: int | None = None
    depends_on: tuple[str, ...] = ()
    process: Process | None = None
    log: str = ""
    data_dir: str = ""
    runs_at: str = ""
    endpoints: tuple[str, ...] = ()
    access: Access | None = None


def dependencies_of(name: str, targets: Iterable[Target]) -> frozenset[str]:
    """Every target that `name` needs, directly or through another; cycles are harmless."""
    needs = {target.name: target.depends_on for target in targets}
    found: set[str] = set()
    queue = list(needs.get(name, ()))
    while queue:
        dependency = queue.pop()
        if dependency not in found:
            found.add(dependency)
            queue.extend(needs.get(dependency, ()))
    return frozenset(found - {name})
