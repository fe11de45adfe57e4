"""One operator home, opened: what can be asked of it, by the names that the app knows."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.target import Doer, Process
from operator_protocols.domain.verdict import Mode
from operator_sre.app.acting import no_more_than_acting
from operator_sre.app.hands import MACHINE, Hands, Surroundings
from operator_sre.config import Config
from operator_sre.ledger import KeyFile
from operator_sre.plugins import (
    CAPABILITIES,
    PERMISSIONS,
    find_checker,
    find_plugin,
    plugin_names,
)
from operator_sre.store import Store

if TYPE_CHECKING:
    # Whoever only reads the store starts without the rest; each part is loaded where it is used.
    from operator_protocols.domain.limits import Limits
    from operator_protocols.domain.target import Target
    from operator_protocols.ports import (
        CapabilityChecker,
        Clock,
        Engine,
        Kill,
        PermissionChecker,
        Plugin,
        Shell,
        SubjectSettings,
    )
    from operator_sre.engine import LocalEngine
    from operator_sre.executor.programs import Programs
    from operator_sre.executor.running import Running
    from operator_sre.executor.spool import Spool
    from operator_sre.gate import Answering, Standing, Terms
    from operator_sre.gate.policy import Rulebook
    from operator_sre.monitor import WatchStats
    from operator_sre.pipeline import Care

__all__ = ["App"]


@dataclass(frozen=True, slots=True)
class App:
    """One operator home, opened."""

    config: Config
    store: Store
    clock: Clock
    key: KeyFile
    new_id: Callable[[], str]
    rules: Callable[[], Rulebook]

    @property
    def spool(self) -> Spool:
        """Where whole outputs lie."""
        from operator_sre.executor.spool import Spool

        return Spool(self.config.home / "spool")

    @property
    def permissions(self) -> PermissionChecker:
        """What people may."""
        from operator_protocols.ports import PermissionChecker
        from operator_sre.app.policy import roles_of
        from operator_sre.gate import LocalPermissions

        # A port is a type like any other, but mypy takes no abstract one for `type[T]`.
        ours: PermissionChecker = LocalPermissions(roles_of(self.rules()))
        found = find_checker(PERMISSIONS, PermissionChecker, ours)  # type: ignore[type-abstract]
        return no_more_than_acting(found)

    @property
    def capabilities(self) -> CapabilityChecker:
        """What agents may."""
        from operator_protocols.ports import CapabilityChecker
        from operator_sre.app.policy import grants_of
        from operator_sre.gate import GrantedCapabilities

        ours: CapabilityChecker = GrantedCapabilities(grants_of(self.rules()))
        return find_checker(CAPABILITIES, CapabilityChecker, ours)  # type: ignore[type-abstract]

    @property
    def terms(self) -> Terms:
        """How people are asked."""
        from operator_sre.gate import Terms

        config = self.config
        return Terms(
            approval_s=config.number("approval_s"),
            parked_s=config.number("parked_s"),
            escalate_s=config.number("escalate_s"),
            two_person=config.values["two_person"],
            self_approval=config.values["self_approval"],
        )

    @property
    def standing(self) -> Standing:
        """What people allowed for always."""
        from operator_sre.gate import Standing

        return Standing(self.store.standing, resolve=os.path.realpath)

    @property
    def answering(self) -> Answering:
        """Where people's answers go."""
        from operator_sre.gate import Answering

        return Answering(self.store.approvals, self.permissions, self.terms)

    @property
    def running(self) -> Running:
        """What commands of this home run on this machine."""
        from operator_sre.executor.running import Running

        return Running(self.config.home / "runner")

    @property
    def programs(self) -> Programs:
        """What starts programs of this home on this machine."""
        from operator_sre.executor.programs import Programs

        return Programs(self.spool, self.running)

    @property
    def doer(self) -> Doer:
        """Who we are, for whoever finds what we began."""
        from operator_sre.processes.identity import process_of
        from operator_sre.processes.runner.records import boot_id

        me = process_of(os.getpid()) or Process(os.getpid(), 0.0)
        return Doer(socket.gethostname(), boot_id(), me)

    @property
    def surroundings(self) -> Surroundings:
        """What a command finds where it runs."""
        from operator_sre.executor.programs import OUTPUT_BYTES_MAX
        from operator_sre.executor.transports.local import ENVIRONMENT
        from operator_sre.processes.tree import MARK

        return Surroundings(ENVIRONMENT, OUTPUT_BYTES_MAX, MARK)

    @property
    def home_id(self) -> str:
        """What containers of this home are labelled with."""
        return digest_of(str(self.config.home)).removeprefix("sha256:")[:16]

    def mode_of(self, subject: str) -> Mode:
        """What counts for a subject: the kill switch, what a person set, a flag, the policy."""
        if self.store.switch.state().on:
            return Mode.OBSERVE
        if found := self.store.modes.find(subject):
            return found[0].mode
        flag = self.config.sources["mode"] == "flag"
        mode = self.config.mode if flag else self.rules().modes.get(subject, self.config.mode)
        if subject != MACHINE:
            return mode
        # What is about none may touch each of them, so that the strictest word of a person counts.
        return min([mode, *(one.mode for one in self.store.modes.find())], key=list(Mode).index)

    def is_rig(self, subject: str) -> bool:
        """True for what the lab runs; a configured subject never is."""
        configured = any(one.name == subject for one in self.config.subjects)
        return not configured and (self.rig_directory(subject) / "rig.json").exists()

    def targets_of(self, subject: str) -> Sequence[Target]:
        """Its parts, as they are configured or as its rig tells."""
        from operator_sre.lab.rigs import attach

        for one in self.config.subjects:
            if one.name == subject:
                read = None if one.targets else self.plugin_of(subject).targets
                return one.targets if read is None else read(one.options)
        if subject == MACHINE or self.is_alerted(subject):
            return ()
        return attach(self.rig_directory(subject)).targets()

    def limits_of(self, targets: int, *, rig: bool) -> Limits:
        """How much may be changed about a subject with so many targets."""
        from operator_sre.gate.limits import limits_for

        told = {} if rig else self.rules().limits
        limits = limits_for(
            targets,
            changes_per_hour=int(
                told.get("changes_per_hour", self.config.number("changes_per_hour"))
            ),
            targets_max=int(told.get("blast_radius", self.config.number("targets_max"))),
            rig=rig,
        )
        return replace(limits, failures_max=int(told.get("breaker_failures", limits.failures_max)))

    def rig_directory(self, subject: str) -> Path:
        """Where the rig of a subject lives under this home."""
        return self.config.home / "lab" / subject

    def subjects(self) -> list[str]:
        """What can be watched from here: subjects of operator.toml, and rigs that are up."""
        configured = [subject.name for subject in self.config.subjects]
        rigs = [
            name
            for name in plugin_names()
            if name not in configured and (self.rig_directory(name) / "rig.json").exists()
        ]
        return [*configured, *rigs]

    def why_gone(self, subject: str) -> str:
        """Why there is no such subject any more; empty when it is there."""
        if subject in self.subjects() or self.is_alerted(subject):
            return ""
        return f"{subject!r} was taken down or removed: there is nothing left to prove it on."

    def choose(self, named: Sequence[str]) -> list[str]:
        """The subjects that were named, or the only one there is."""
        from operator_sre.app.choosing import chosen

        return chosen(named, known=self.subjects(), installed=plugin_names())

    def care(self, name: str) -> Care:
        """Everything needed to care for a subject."""
        from operator_sre.app.wiring.caring import care_of

        return care_of(self, name)

    def is_alerted(self, subject: str) -> bool:
        """True for what only a trigger sees."""
        return any(one.name == subject and not one.subject for one in self.config.triggers)

    def plugin_of(self, name: str) -> Plugin:
        """What knows a subject that is configured or has a rig, or that only a trigger sees."""
        if self.is_alerted(name):
            from operator_sre.app.alerts import alerted_plugin

            return alerted_plugin(self, name)
        plugins = {one.name: one.plugin for one in self.config.subjects}
        return find_plugin(plugins.get(name, name))

    def settings_of(
        self,
        name: str,
        targets: Callable[[], Sequence[Target]],
        shell: Shell | None = None,
        life: Kill | None = None,
    ) -> SubjectSettings:
        """What its plug-in is given to build a subject and its tools."""
        from operator_protocols.ports import SubjectSettings
        from operator_sre.app.describing import judging
        from operator_sre.app.secrets import secret_reader

        configured = {one.name: one.options for one in self.config.subjects}
        options = configured.get(name)
        return SubjectSettings(
            name,
            targets,
            self.clock,
            self.config.number("timeout_s"),
            self._rig_options(name) if options is None else options,
            secret_reader(self.config, name),
            shell,
            life,
            judging(self.rules),
        )

    def _rig_options(self, name: str) -> Mapping[str, Any]:
        from operator_sre.lab.manifest import read_manifest
        from operator_sre.lab.stacks.record import is_stack, read_record

        directory = self.rig_directory(name)
        read = read_record if is_stack(directory) else read_manifest
        found = read(directory)
        return {} if found is None else found.spec.options

    def hands(self, name: str) -> Hands:
        """What acts for a subject, or for MACHINE. LedgerDamagedError on a store not to act by."""
        from operator_sre.app.arming import hands_of

        self.store.must_be_whole()
        return hands_of(self, name)

    def engine(self, stats: WatchStats | None = None) -> LocalEngine:
        """The loops that watch and work, on this home; `stats` tell how watching goes."""
        from operator_sre.app.wiring.engines import engine_of

        return engine_of(self, stats)

    def engine_named(self, name: str, *, worker: str) -> Engine:
        """The engine of a worker of this id: `local`, or `dbos` for many machines."""
        from operator_sre.engine.choosing import engine_named

        local, store = replace(self.engine(), worker=worker), self.store
        return engine_named(
            name, local, self.config.store, backlog=store.backlog, workers=store.workers
        )
