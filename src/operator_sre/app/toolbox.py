"""The tools that act for a subject: those of every machine, and those that it brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from operator_protocols.domain.target import Target
from operator_protocols.ports import Tool
from operator_sre.app.redaction import open_redactor
from operator_sre.executor.docker import Engine
from operator_sre.executor.programs import Programs
from operator_sre.executor.sandbox import Sandbox
from operator_sre.executor.sandbox.bubblewrap import Bubblewrap
from operator_sre.executor.sandbox.docker import DockerBox
from operator_sre.executor.scripts import Flaw, Layer, Validation
from operator_sre.executor.scripts.literals import secrets_in
from operator_sre.executor.tools.docker import docker_tools
from operator_sre.executor.tools.files import Rights
from operator_sre.executor.tools.registry import Registry
from operator_sre.executor.tools.script import ExecuteScript
from operator_sre.executor.tools.standard import standard_tools

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["registry_of"]


def registry_of(
    app: App,
    programs: Programs,
    targets: Callable[[], Sequence[Target]],
    brought: Sequence[Tool],
    *,
    rig: bool = False,
) -> Registry:
    """All of them, each under its own name. What the policy says is asked at every call.

    A script reaches the hosts that the policy lists for scripts; in a `rig` its targets instead.
    """
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
    script = ExecuteScript(
        _sandbox(app, programs),
        Validation(programs, secrets=lambda text: _secrets(app, text)),
        hosts=lambda: _places(targets()) if rig else app.rules().egress.scripts,
        in_rig=rig,
    )
    return Registry((*standard, *docker_tools(), script, *brought))


def _places(targets: Iterable[Target]) -> tuple[str, ...]:
    """Where these targets answer, each by its address and port."""
    found = (
        (f"[{one.host}]" if ":" in one.host else one.host, one.port)
        for one in targets
        if one.port is not None
    )
    return tuple(f"{host}:{port}" for host, port in found)


def _sandbox(app: App, programs: Programs) -> Sandbox:
    """What boxes scripts here; the operator's own home is never seen from inside."""
    if app.config.values["sandbox"] == "docker":
        return DockerBox(Engine(), home=app.home_id)
    return Bubblewrap(programs, hides=[app.config.home])


def _secrets(app: App, text: str) -> Iterable[Flaw]:
    """What is found by the patterns for scripts, and by whoever redacts the ledger."""
    yield from secrets_in(text)
    for found in open_redactor(app.config).report(text):
        yield Flaw(Layer.SECRETS, f"it holds a secret ({found.kind}); hand it in another way.")
