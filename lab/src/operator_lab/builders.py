"""What the lab builds from source before the first start of a rig, by the name in its RigSpec."""

from __future__ import annotations

import threading
from collections.abc import Callable

from operator_lab.kubernetes import build as kubernetes
from operator_protocols.domain.rig import RigSpec
from operator_protocols.errors import RigError

__all__ = ["build_for", "find_built", "unbuildable"]

KUBERNETES = "kubernetes"


def build_for(spec: RigSpec, tell: Callable[[str], None], stop: threading.Event) -> None:
    """Build what a rig needs and does not have; RigError says why that cannot be done.

    Once `stop` is set, a build ends within a second and leaves nothing half done.
    """
    if spec.builds:
        _require_known(spec)
        kubernetes.build(nodes=_has_nodes(spec), tell=tell, stop=stop)


def find_built(spec: RigSpec) -> str:
    """The folder with what was built; "" for a rig that needs nothing, RigError where it lacks."""
    if not spec.builds:
        return ""
    _require_known(spec)
    programs = kubernetes.find_programs()
    if programs is None:
        raise RigError(
            f"The programs of the rig of {spec.subject!r} have not been built yet.",
            next_step=f"Build them with: operator lab up {spec.subject}",
        )
    return str(programs.folder)


def unbuildable(spec: RigSpec) -> str:
    """Why this machine cannot build or run a rig, or ""."""
    return kubernetes.missing_tools(nodes=_has_nodes(spec)) if spec.builds else ""


def _has_nodes(spec: RigSpec) -> bool:
    return any(process.kind == kubernetes.NODE_KIND for process in spec.processes)


def _require_known(spec: RigSpec) -> None:
    if spec.builds != KUBERNETES:
        raise RigError(f"The lab cannot build {spec.builds!r}.")
