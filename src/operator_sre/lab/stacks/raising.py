"""Bring a rig of containers to life on private ports, or leave nothing of it."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path

from operator_protocols.domain.stack import StackSpec
from operator_protocols.errors import OperatorError, RigError
from operator_sre.lab.manifest import MANIFEST_FILE
from operator_sre.lab.ports import ChoosePorts, choose_ports
from operator_sre.lab.stacks.command import find_compose
from operator_sre.lab.stacks.containers import Containers
from operator_sre.lab.stacks.keeper import Kept, keep
from operator_sre.lab.stacks.record import prepare, read_record, remove
from operator_sre.lab.stacks.rig import StackRig
from operator_sre.lab.stacks.target import ComposeTarget

__all__ = ["OwnedStackRig", "project_of", "raise_stack"]


class OwnedStackRig(StackRig):
    """A rig that ends with its owner at the latest."""

    def __init__(self, directory: Path, kept: Kept) -> None:
        super().__init__(directory)
        self._kept = kept

    async def down(self) -> None:
        """End everything, and who would have ended it."""
        await super().down()
        self._kept.release()


def project_of(subject: str, directory: Path) -> str:
    """The name of the project of a rig: no other directory has the same."""
    digest = hashlib.sha256(str(directory.absolute()).encode()).hexdigest()
    return f"operator-lab-{subject}-{digest[:10]}".lower()


async def raise_stack(
    spec: StackSpec,
    directory: Path,
    *,
    owned: bool,
    given: Mapping[str, str] | None = None,
    choose: ChoosePorts = choose_ports,
) -> StackRig:
    """Start all of it and wait until it is well; on any failure nothing of it stays."""
    if (directory / MANIFEST_FILE).exists():
        raise RigError(
            f"A rig of {spec.subject!r} is up already in {str(directory)!r}.",
            next_step="Use it, or end it with: operator lab down",
        )
    compose = await find_compose()  # before anything is written
    project = project_of(spec.subject, directory)
    await Containers(project).reach()
    ports = choose(list(spec.ports))
    record = prepare(spec, directory, project=project, ports=ports, given=given)
    kept = keep(directory) if owned else None
    target = ComposeTarget(record, directory, compose=compose)
    up = False
    try:
        await target.up()
        up = True
    finally:
        if not up:
            with contextlib.suppress(OperatorError):
                await target.clear()
                remove(directory)
            if kept is not None:
                kept.release()
    if read_record(directory) is None:
        raise RigError("The rig was taken down while it was starting.")
    return StackRig(directory) if kept is None else OwnedStackRig(directory, kept)
