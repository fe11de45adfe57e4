"""Gate, restraint, tools and executor put together, for a subject or for the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError
from operator_protocols.ports import Kill, SubjectSettings, Tool
from operator_sre.app.hands import MACHINE, Hands
from operator_sre.app.own_program import is_own_program
from operator_sre.app.secrets import given_to
from operator_sre.app.toolbox import registry_of
from operator_sre.executor import Executor
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools.script import ExecuteScript
from operator_sre.executor.transports.local import LocalShell
from operator_sre.executor.transports.shells import Remotes, Shells
from operator_sre.gate import Gate, Policy, Profile
from operator_sre.gate.policy.egress import hosts_of
from operator_sre.gate.restraint import Restraint

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["hands_of"]

SCRIPT = ExecuteScript.spec.name
Targets = Callable[[], Sequence[Target]]


def hands_of(app: App, name: str) -> Hands:
    """What acts for a subject that is configured or has a rig, or for MACHINE."""
    from operator_sre.lab.rigs import attach
    from operator_sre.lab.tools import rig_tools

    told = app.is_alerted(name)
    if name == MACHINE or told or any(one.name == name for one in app.config.subjects):
        return _hands(app, name, lambda: app.targets_of(name), None, (), Profile.STANDARD)
    rig = attach(app.rig_directory(name))
    return _hands(app, name, rig.targets, rig, rig_tools(rig), Profile.LAB)


def _hands(
    app: App,
    name: str,
    targets: Targets,
    life: Kill | None,
    given: Sequence[Tool],
    profile: Profile,
) -> Hands:
    if app.config.values["profile"] == Profile.LAB and profile is not Profile.LAB:
        raise ConfigError(
            f"The profile 'lab' is for rigs only, and {name!r} is not one.",
            next_step="Remove 'profile', or start a rig with: operator lab up",
        )
    programs = app.programs
    local = LocalShell(programs, lambda action: given_to(app.config, action))
    remotes = Remotes(
        programs, app.spool, gives=lambda action: given_to(app.config, action, away=True)
    )
    shells = Shells(local, targets, remotes)
    settings = app.settings_of(name, targets, shells, life)
    tools = (*given, *_brought(app, settings))
    bounded = profile is Profile.LAB
    registry = registry_of(app, programs, targets, tools, rig=bounded)
    # A script in a box reaches nothing but the targets of its rig, as the tools of a rig do.
    within = frozenset((SCRIPT, *(tool.spec.name for tool in tools)) if bounded else ())
    latest: list[Policy] = []
    # A subject may know parts that are no process, such as the cluster that its members are.
    parts = targets if name == MACHINE else app.plugin_of(name).subject(settings).targets
    reached = parts if bounded else targets

    def policy() -> Policy:
        made = Policy(
            mode=app.mode_of(name),
            profile=profile,
            tools=registry.specs,
            boundary_tools=within,
            boundary_targets=frozenset(target.name for target in reached()),
            hosts=hosts_of(targets()),
            book=app.rules(),
        )
        if not latest or latest[0] != made:
            latest[:] = [made]
        return latest[0]  # the same one as long as nothing changes: it knows its digest

    def limits() -> Limits:
        return app.limits_of(len(targets()), rig=profile is Profile.LAB)

    restraint = _restraint(app, policy, limits)
    return Hands(
        gate=_gate(app, policy, restraint, targets),
        restraint=restraint,
        executor=_executor(app, programs, shells, registry.tools, limits),
        targets=targets,
        parts=parts,
        registry=registry,
        shells=shells,
        settings=settings,
    )


def _brought(app: App, settings: SubjectSettings) -> Sequence[Tool]:
    """The tools that a plug-in has of its own."""
    if settings.name == MACHINE:
        return ()
    tools = app.plugin_of(settings.name).tools
    return tools(settings) if tools is not None else ()


def _gate(app: App, policy: Callable[[], Policy], restraint: Restraint, targets: Targets) -> Gate:
    return Gate(
        policy=policy,
        journal=app.store.journal,
        approvals=app.store.approvals,
        clock=app.clock,
        new_id=app.new_id,
        terms=app.terms,
        standing=app.standing,
        permissions=app.permissions,
        capabilities=app.capabilities,
        identify=lambda name: _identity(name, targets()),
        environment=digest_of(dict(app.surroundings.environment)),
        restrain=restraint,
        ours=is_own_program,
    )


def _executor(
    app: App,
    programs: Programs,
    shells: Shells,
    tools: Sequence[Tool],
    limits: Callable[[], Limits],
) -> Executor:
    """The hands of this home: what they run can be found, and follows the kill switch."""
    return Executor(
        app.store.intents,
        shells,
        tools,
        limits=limits,
        generation=lambda: app.store.switch.state().generation,
        doer=app.doer,
        settle=programs.recover,
    )


def _restraint(app: App, policy: Callable[[], Policy], limits: Callable[[], Limits]) -> Restraint:
    def inside(action: Action) -> bool:
        now = policy()
        return now.profile is Profile.LAB and now.inside(action)

    store = app.store
    return Restraint(store.switch, store.changes, store.sessions, app.clock, limits, inside=inside)


def _identity(name: str, targets: Sequence[Target]) -> str:
    """What tells a target from a later one of the same name; "" where nobody knows it."""
    for target in targets:
        if target.name == name and target.process is not None:
            where = f"pid {target.process.pid} started {target.process.started}"
        elif target.name == name:
            where = f"{target.host}:{target.port}"
        else:
            continue
        return f"{name}: {where}" + (f" by {target.runs_at}" if target.runs_at else "")
    return ""
