"""The tools that act for a subject: those of every machine, and those that it brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from operator_protocols.domain.target import Target
from operator_protocols.ports import Tool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools.docker import docker_tools
from operator_sre.executor.tools.files import Rights
from operator_sre.executor.tools.registry import Registry
from operator_sre.executor.tools.standard import standard_tools

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["registry_of"]


def registry_of(
    app: App,
    programs: Programs,
    targets: Callable[[], Sequence[Target]],
    brought: Sequence[Tool],
) -> Registry:
    """All of them, each under its own name. What the policy says is asked at every call."""
    standard = standard_tools(
        programs=programs,
        clock=app.clock,
        targets=targets,
        manages=lambda service: app.rules().services.manages(service),
        rights=Rights(
            writable=lambda path: app.rules().writes(path),
            secret=lambda path: app.rules().secrets.holds(path),
        ),
        home=app.config.home,
    )
    return Registry((*standard, *docker_tools(), *brought))
