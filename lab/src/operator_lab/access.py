"""What the core asks of the lab: it loads this module by its name, where a home has a rig."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operator_lab.manifest import Layout, read_manifest
from operator_lab.rig import attach
from operator_lab.stacks.record import is_stack, read_record
from operator_lab.tools import NO_PRECONDITIONS, rig_tools
from operator_protocols.domain.precondition import Precondition
from operator_sre.app.extras import RigAccess

__all__ = ["open_rig", "read_options"]


def open_rig(
    directory: Path, requires: Mapping[str, tuple[Precondition, ...]] = NO_PRECONDITIONS
) -> RigAccess:
    """The rig that is up in a directory; NotFoundError when there is none.

    `requires` are the preconditions of its tools, by name.
    """
    rig = attach(directory)
    return RigAccess(rig.targets, rig, rig_tools(rig, requires))


def read_options(directory: Path) -> Mapping[str, Any]:
    """The options that the subject of a rig is built with."""
    if is_stack(directory):
        record = read_record(directory)
        return {} if record is None else record.spec.options
    manifest = read_manifest(directory)
    if manifest is None:
        return {}
    layout, processes = Layout(directory, manifest), manifest.spec.processes
    return {
        name: layout.fill(processes[0], value) if processes and isinstance(value, str) else value
        for name, value in manifest.spec.options.items()
    }
