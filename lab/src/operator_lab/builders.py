"""What the lab builds from source before the first start of a rig, by the name in its RigSpec."""

from __future__ import annotations

import os
from collections.abc import Callable

from operator_lab.kubernetes import build as kubernetes
from operator_protocols.domain.rig import RigSpec
from operator_protocols.errors import RigError

__all__ = ["build_for", "find_built", "unbuildable"]

KUBERNETES = "kubernetes"


def build_for(spec: RigSpec, tell: Callable[[str], None]) -> None:
    """Build what a rig needs and does not have; RigError says why that cannot be done."""
    if spec.builds:
        _require_known(spec)
        kubernetes.build(nodes=os.geteuid() == 0, tell=tell)


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
    return kubernetes.missing_tools(nodes=False) if spec.builds else ""


def _require_known(spec: RigSpec) -> None:
    if spec.builds != KUBERNETES:
        raise RigError(f"The lab cannot build {spec.builds!r}.")
