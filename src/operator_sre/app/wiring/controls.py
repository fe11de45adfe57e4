"""The controls of a subject put together: gate, tools, shells and executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError
from operator_protocols.ports import Clock, Kill, Noted, Plugin, Subject, Tool
from operator_sre.app.context import comments_of, context_of
from operator_sre.app.extras import load_lab
from operator_sre.app.redaction import open_redactor
from operator_sre.app.secret_store import variables_for
from operator_sre.app.system import is_own_program
from operator_sre.config.tables import SECRET
from operator_sre.controls import MACHINE, Controls
from operator_sre.enforcement import why_not_confined, why_not_covered
from operator_sre.executor import Executor
from operator_sre.executor.box import why_no_box
from operator_sre.executor.docker import Engine
from operator_sre.executor.hidden import Hidden
from operator_sre.executor.programs import Programs
from operator_sre.executor.sandbox import Sandbox
from operator_sre.executor.sandbox.bubblewrap import Bubblewrap
from operator_sre.executor.sandbox.docker import DockerBox
from operator_sre.executor.scripts import Flaw, Layer, Validation
from operator_sre.executor.scripts.validation import secrets_in
from operator_sre.executor.tools.docker import docker_tools
from operator_sre.executor.tools.files import Rights
from operator_sre.executor.tools.general import standard_tools
from operator_sre.executor.tools.registry import Registry
from operator_sre.executor.tools.script import CheckScript, ExecuteScript
from operator_sre.executor.transports.local import LocalShell
from operator_sre.executor.transports.shells import Remotes, Shells
from operator_sre.gate import Gate, Policy, Profile, Turns
from operator_sre.gate.policy.egress import hosts_of
from operator_sre.gate.restraint import Restraint
from operator_sre.monitor import run_check

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["build_controls", "build_registry", "notes_of"]

SCRIPT = ExecuteScript.spec.name
Targets = Callable[[], Sequence[Target]]


class _Machine:
    """The subject of actions that are about none: it has no parts, and nothing is observed."""

    name = MACHINE
    invariants = ()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def targets(self) -> Sequence[Target]:
        return ()

    async def observe(self) -> Observation:
        return Observation(MACHINE, self._clock.now(), ())


def build_controls(app: App, name: str) -> Controls:
    """The controls of a subject that is configured or has a rig, or of MACHINE."""
    is_configured = any(subject.name == name for subject in app.config.subjects)
    if name == MACHINE or app.is_alerted(name) or app.is_own(name) or is_configured:
        if app.config.values["profile"] == Profile.LAB:
            raise ConfigError(
                f"The profile 'lab' is for rigs only, and {name!r} is not one.",
                next_step="Remove 'profile', or start a rig with: operator lab up",
            )
        return _build(app, name, lambda: app.targets_of(name), None, (), Profile.STANDARD)
    rig = load_lab().open_rig(app.rig_directory(name), app.plugin_of(name).requires)
    return _build(app, name, rig.targets, rig.life, rig.tools, Profile.LAB)


def _build(
    app: App,
    name: str,
    targets: Targets,
    life: Kill | None,
    rig_tools: Sequence[Tool],
    profile: Profile,
) -> Controls:
    is_rig = profile is Profile.LAB
    programs, store = app.programs, app.store
    local = LocalShell(programs, lambda action: variables_for(app.config, action), _hide_files(app))
    remotes = Remotes(
        programs, app.spool, gives=lambda action: variables_for(app.config, action, away=True)
    )
    shells = Shells(local, targets, remotes)
    settings = app.settings_of(name, targets, shells, life)
    plugin = None if name == MACHINE else app.plugin_of(name)
    own_tools = plugin.tools(settings) if plugin is not None and plugin.tools is not None else ()
    tools = (*rig_tools, *own_tools)
    registry = build_registry(app, programs, targets, tools, rig=is_rig)
    subject: Subject = plugin.subject(settings) if plugin is not None else _Machine(app.clock)
    # A script in a box reaches nothing but the targets of its rig, as the tools of a rig do.
    within = frozenset((SCRIPT, *(tool.spec.name for tool in tools)) if is_rig else ())
    # A subject may have parts that are no process, such as the cluster that its members form.
    reached = subject.targets if is_rig else targets
    latest: list[Policy] = []

    def policy() -> Policy:
        made = Policy(
            mode=app.mode_of(name),
            profile=profile,
            tools=registry.specs,
            boundary_tools=within,
            boundary_targets=frozenset(target.name for target in reached()),
            hosts=hosts_of(targets()),
            boundary=_boundary_of(name, targets()) if is_rig else None,
            book=app.rules(),
        )
        if not latest or latest[0] != made:
            latest[:] = [made]
        return latest[0]  # the same one as long as nothing changes: it knows its digest

    def limits() -> Limits:
        return app.limits_of(len(targets()), rig=is_rig)

    held = (store.switch, store.limit_usage, store.sessions, app.clock, limits)
    restraint = Restraint(*held, inside=lambda action: is_rig and policy().inside(action))
    return Controls(
        subject=_add_alerts(app, subject),
        gate=_build_gate(app, policy, restraint, targets),
        executor=Executor(
            store.intents,
            shells,
            registry.tools,
            limits=limits,
            generation=lambda: store.switch.state().generation,
            initiator=app.initiator,
            settle=programs.recover,
            observe=partial(_observe, app, subject),
            get_ready=programs.get_ready,
        ),
        turns=Turns(name, store.limit_usage, limits, app.clock),
        restraint=restraint,
        targets=targets,
        settings=settings,
        causes=plugin.causes_for(settings.options) if plugin is not None else (),
        notes=notes_of(plugin, subject) if plugin is not None else "",
        context=context_of(app, targets),
        comments=partial(comments_of, store.entries),
    )


def _boundary_of(rig: str, targets: Sequence[Target]) -> Confinement | None:
    """What a command line of an agent may reach in a rig; None when parts of it run elsewhere."""
    if any(target.runs_at for target in targets):
        return None
    logs = tuple(target.log for target in targets if target.log)
    return Confinement(
        reads=logs,
        # Other files of a rig hold its passwords, and by them its servers run any program.
        shown=logs,
        hosts=addresses_of(targets),
        inside=rig,
        processes=tuple(target.process for target in targets if target.process is not None),
    )


async def _observe(app: App, subject: Subject) -> tuple[Observation, Sequence[Target]]:
    check, targets = await run_check(subject, app.clock, timeout_s=app.config.check_timeout_s)
    return check.observation, targets


def notes_of(plugin: Plugin, subject: Subject) -> str:
    """The notes of a plug-in on all of its subjects, and those of this subject."""
    own = subject.notes if isinstance(subject, Noted) else ""
    return "\n".join(note.strip() for note in (plugin.notes, own) if note.strip())


def _add_alerts(app: App, subject: Subject) -> Subject:
    """The subject, with the alerts that triggers report of it."""
    if not any(trigger.subject == subject.name for trigger in app.config.triggers):
        return subject
    from operator_sre.triggers.subject import WithAlerts

    # Less than a whole observation may take: alerts count also where the rest cannot be seen.
    timeout_s = app.config.check_timeout_s * 2 / 3
    return WithAlerts(subject, app.store.alerts, clock=app.clock, timeout_s=timeout_s)


def _build_gate(
    app: App, policy: Callable[[], Policy], restraint: Restraint, targets: Targets
) -> Gate:
    def identify(name: str) -> str:
        """The identity of a target, unlike that of a later one of this name; "" if unknown."""
        for target in targets():
            if target.name == name:
                where = f"{target.host}:{target.port}"
                if target.process is not None:
                    where = f"pid {target.process.pid} started {target.process.started}"
                return f"{name}: {where}" + (f" by {target.runs_at}" if target.runs_at else "")
        return ""

    def why_unenforced(name: str, held: Confinement) -> str:
        """Why the kernel cannot hold a command at a target to its verdict, or nothing."""
        if any(target.name == name and target.runs_at for target in targets()):
            return "it runs on another machine"
        if held.inside:
            return why_not_confined()  # a box would not hold its signals and connections
        if held.writes is None:
            return why_not_covered()
        return why_not_confined() if why_no_box() else ""

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
        identify=identify,
        environment=digest_of(dict(app.surroundings.environment)),
        restrain=restraint,
        await_proofs=restraint.await_proofs,
        ours=is_own_program,
        enforcement=why_unenforced,
    )


def build_registry(
    app: App,
    programs: Programs,
    targets: Targets,
    subject_tools: Sequence[Tool],
    *,
    rig: bool = False,
) -> Registry:
    """The tools of every machine, and those of the subject. The policy is read at every call.

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
        redact=lambda *texts: open_redactor(app.config).part(*texts),
        home=app.config.home,
    )
    sandbox: Sandbox
    if app.config.values["sandbox"] == "docker":
        sandbox = DockerBox(Engine(), home=app.home_id)
    else:
        sandbox = Bubblewrap(programs, hides=[app.config.home])

    def find_secrets(text: str) -> Iterable[Flaw]:
        yield from secrets_in(text)
        for found in open_redactor(app.config).report(text):
            yield Flaw(
                Layer.SECRETS,
                f"it contains a secret ({found.kind}); pass the secret in another way.",
            )

    validation = Validation(programs, secrets=find_secrets)
    script = ExecuteScript(
        sandbox,
        validation,
        hosts=(lambda: addresses_of(targets())) if rig else lambda: app.rules().egress.scripts,
        in_rig=rig,
    )
    check = CheckScript(sandbox, validation)
    return Registry((*standard, *docker_tools(), script, check, *subject_tools))


def addresses_of(targets: Sequence[Target]) -> tuple[str, ...]:
    """Where the targets answer, as `host:port`."""
    found = (
        (f"[{target.host}]" if ":" in target.host else target.host, target.port)
        for target in targets
        if target.port is not None
    )
    return tuple(f"{host}:{port}" for host, port in found)


def _hide_files(app: App) -> Hidden:
    """The files that no confined command may read: Operator's own, and credentials of all kinds."""
    config = app.config
    targets = [target for subject in config.subjects for target in subject.targets]
    accesses = [target.access for target in targets if target.access is not None]
    named = [*(model.key_file for model in config.models), config.notices.urls_file]
    named += [
        name
        for access in accesses
        for name in (access.key_file, access.password_file, access.token_file)
    ]
    files = [Path(name) for name in named if name and not name.startswith(SECRET)]
    own = (config.home, config.ledger_key, *files)
    return Hidden(own, lambda: app.rules().secrets.patterns, shown=app.rig_directory(""))
