"""Stacks on this machine: start, inspect and remove them. They are not rigs to break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from operator_lab.ports import is_taken
from operator_lab.stacks.containers import Containers
from operator_lab.stacks.record import SECRETS_FOLDER, Record, prepare, read_record, remove
from operator_lab.stacks.target import ComposeTarget, find_compose
from operator_protocols.domain.stack import ServiceStatus, StackSpec
from operator_protocols.errors import NotFoundError, OperatorError, RigError, UsageError
from operator_sre.app.wiring import App
from operator_sre.plugins import find_plugin, plugin_names

__all__ = [
    "DeploymentView",
    "deploy_down",
    "deploy_logs",
    "deploy_restart",
    "deploy_status",
    "deploy_up",
]

FOLDER = "deployments"


@dataclass(frozen=True, slots=True)
class DeploymentView:
    """A deployment with all its services.

    `ports` are those of this machine by the variable that sets them, `secrets` the files that hold
    its passwords.
    """

    subject: str
    project: str
    directory: str
    services: tuple[ServiceStatus, ...]
    ports: Mapping[str, int]
    secrets: Mapping[str, str]

    @property
    def well(self) -> bool:
        """All of it runs."""
        return bool(self.services) and all(service.well for service in self.services)


async def deploy_up(
    app: App, subject: str, *, project: str | None = None, given: Sequence[str] = ()
) -> DeploymentView:
    """Bring the stack of a subject up and wait until it is well; what is up already stays so."""
    spec = _stack_of(subject)
    compose = await find_compose()  # before anything is written
    directory = _directory(app, subject, project)
    before = read_record(directory)
    ports = {} if before is None else {name: int(before.values[name]) for name in spec.ports}
    known = {} if before is None else {name: before.values[name] for name in spec.settings}
    found: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(
                f"{word[:80]!r} is not a setting.", next_step="Write it as NAME=VALUE, with --set."
            )
        found[name] = value
    wanted = {**known, **found}
    record = prepare(spec, directory, project=directory.name, ports=ports, given=wanted)
    target = ComposeTarget(record, directory, compose=compose)
    if before is None:
        try:
            held = [name for name in record.spec.ports if is_taken(int(record.values[name]))]
            if held:
                names = ", ".join(f"{name} ({record.values[name]})" for name in held)
                raise RigError(
                    f"Another process listens on what {record.project!r} needs: {names}.",
                    next_step=f"Give it another port with: --set {held[0]}=PORT",
                )
            await Containers(record.project).reach()
        except OperatorError:
            remove(directory)
            raise
    try:
        services = await target.up()
    except asyncio.CancelledError:
        if before is None:  # what was never up and is broken off leaves nothing
            with contextlib.suppress(OperatorError):
                await target.clear()
                remove(directory)
        raise
    except RigError as problem:
        named = record.project != f"operator-{subject}"
        words = f"{subject} --project {record.project}" if named else subject
        raise RigError(
            problem.message,
            next_step=f"Check with: operator deploy local logs {words}"
            f" - and remove it with: operator deploy local down {words} --volumes",
        ) from problem
    return _view(target.record, directory, services)


async def deploy_down(
    app: App, subject: str, *, project: str | None = None, volumes: bool = False
) -> str | None:
    """End it, with its data where asked; returns its project, None where there is nothing."""
    directory = _directory(app, subject, project)
    record = read_record(directory)
    if record is None:
        _stack_of(subject)
        return None
    await ComposeTarget(record, directory).down(volumes=volumes)
    if volumes:
        remove(directory)
    return record.project


async def deploy_status(app: App, subject: str, *, project: str | None = None) -> DeploymentView:
    """Every service as it is now."""
    target, directory = _find_record(app, subject, project)
    return _view(target.record, directory, await target.status())


async def deploy_logs(
    app: App, subject: str, *, service: str | None, lines: int, project: str | None = None
) -> Sequence[str]:
    """The last lines of one service, or of each."""
    target, _ = _find_record(app, subject, project)
    return await target.logs(service, lines=lines)


async def deploy_restart(
    app: App, subject: str, *, service: str | None, project: str | None = None
) -> DeploymentView:
    """Restart one service, or all, and wait until they are healthy."""
    target, directory = _find_record(app, subject, project)
    return _view(target.record, directory, await target.restart(service))


def _find_record(app: App, subject: str, project: str | None) -> tuple[ComposeTarget, Path]:
    """What is deployed; NotFoundError where it is not."""
    directory = _directory(app, subject, project)
    record = read_record(directory)
    if record is None:
        _stack_of(subject)
        there = [each.name for each in sorted((app.config.home / FOLDER).glob("*"))]
        raise NotFoundError(
            f"No project {directory.name!r} of {subject!r} is deployed.",
            next_step=f"Deployed: {', '.join(there) or 'none'}. "
            f"Start one with: operator deploy local up {subject}",
        )
    if record.spec.subject != subject:
        raise NotFoundError(
            f"The project {directory.name!r} is one of {record.spec.subject!r}.",
            next_step=f"Name that subject instead of {subject!r}.",
        )
    return ComposeTarget(record, directory), directory


def _directory(app: App, subject: str, project: str | None) -> Path:
    name = f"operator-{subject}" if project is None else project
    if "/" in name or name in ("", ".", ".."):
        raise UsageError(f"{name[:80]!r} cannot be the name of a project.")
    return app.config.home / FOLDER / name


def _stack_of(subject: str) -> StackSpec:
    stack = find_plugin(subject).stack
    if stack is None:
        able = [name for name in plugin_names() if find_plugin(name).stack is not None]
        raise UsageError(
            f"The subject {subject!r} has no stack of containers.",
            next_step=f"Stacks: {', '.join(able) or 'none'}.",
        )
    return stack()


def _view(record: Record, directory: Path, services: Sequence[ServiceStatus]) -> DeploymentView:
    spec = record.spec
    return DeploymentView(
        subject=spec.subject,
        project=record.project,
        directory=str(directory),
        services=tuple(services),
        ports={name: int(record.values[name]) for name in spec.ports},
        secrets={name: str(directory / SECRETS_FOLDER / name) for name in spec.secrets},
    )
