"""One operator home, opened: its store, keys and policy, and what can be asked of it."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.target import Initiator, Process
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.extras import load_lab
from operator_sre.app.persons import no_more_than_acting
from operator_sre.clock import SystemClock
from operator_sre.config import Config
from operator_sre.controls import MACHINE, Controls, Surroundings
from operator_sre.ledger import KeyFile
from operator_sre.ledger.keys import Vault
from operator_sre.plugins import CAPABILITIES, PERMISSIONS, find_checker, find_plugin, plugin_names
from operator_sre.store import Store, open_store_at
from operator_sre.store.entries import KeptHead
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules

if TYPE_CHECKING:
    # Readers of the store do not load the rest; each part is loaded where it is used.
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
    from operator_sre.executor.jobs import RunningJobs, Spool
    from operator_sre.executor.programs import Programs
    from operator_sre.gate import Answering, Standing, Terms
    from operator_sre.gate.policy import Rulebook
    from operator_sre.gate.policy.reload import PolicyFile
    from operator_sre.ledger.redaction import Redactor
    from operator_sre.monitor import WatchStats
    from operator_sre.store.maintenance import Maintenance

__all__ = [
    "OWN",
    "App",
    "choose_subjects",
    "kept_head",
    "look_at_app",
    "maintenance_of",
    "open_app",
]

# The subject that is Operator itself.
OWN = "operator"
START = "Find what runs here with: operator discover, or start a rig: operator lab up ratelimiter"


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
        from operator_sre.executor.jobs import Spool

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
    def running(self) -> RunningJobs:
        """What commands of this home run on this machine."""
        from operator_sre.executor.jobs import RunningJobs

        return RunningJobs(self.config.home / "runner")

    @property
    def programs(self) -> Programs:
        """What starts programs of this home on this machine."""
        from operator_sre.executor.programs import Programs

        return Programs(self.spool, self.running)

    @property
    def initiator(self) -> Initiator:
        """The identity of this process, for the recovery of its commands."""
        from operator_sre.processes.identity import process_of
        from operator_sre.processes.runner.records import boot_id

        me = process_of(os.getpid()) or Process(os.getpid(), 0.0)
        return Initiator(socket.gethostname(), boot_id(), me)

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
        return min(
            [mode, *(setting.mode for setting in self.store.modes.find())], key=list(Mode).index
        )

    def is_rig(self, subject: str) -> bool:
        """True for what the lab runs; a configured subject never is."""
        configured = any(configured.name == subject for configured in self.config.subjects)
        return not configured and (self.rig_directory(subject) / "rig.json").exists()

    def targets_of(self, subject: str) -> Sequence[Target]:
        """Its parts, as they are configured or as its rig tells."""
        for configured in self.config.subjects:
            if configured.name == subject:
                read = None if configured.targets else self.plugin_of(subject).targets
                return configured.targets if read is None else read(configured.options)
        if subject == MACHINE or self.is_alerted(subject):
            return ()
        if self.is_own(subject):
            from operator_sre.app.own_subject import own_targets

            return own_targets()
        return load_lab().open_rig(self.rig_directory(subject)).targets()

    def limits_of(self, targets: int, *, rig: bool) -> Limits:
        """How much may be changed about a subject with so many targets."""
        from operator_sre.gate.restraint import limits_for

        policy = {} if rig else self.rules().limits
        limits = limits_for(
            targets,
            changes_per_hour=int(
                policy.get("changes_per_hour", self.config.number("changes_per_hour"))
            ),
            targets_max=int(policy.get("blast_radius", self.config.number("targets_max"))),
            rig=rig,
        )
        return replace(
            limits, failures_max=int(policy.get("breaker_failures", limits.failures_max))
        )

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
        if subject in self.subjects() or self.is_alerted(subject) or self.is_own(subject):
            return ""
        return f"{subject!r} was removed, so nothing can be proven."

    def choose(self, named: Sequence[str]) -> list[str]:
        """The subjects that were named, or the only one there is."""
        return choose_subjects(named, known=self.subjects(), installed=plugin_names())

    def is_alerted(self, subject: str) -> bool:
        """True for what only a trigger sees."""
        return any(
            trigger.name == subject and not trigger.subject for trigger in self.config.triggers
        )

    def is_own(self, subject: str) -> bool:
        """True for Operator itself, unless a system of that name is configured."""
        return subject == OWN and all(known.name != OWN for known in self.config.subjects)

    def plugin_of(self, name: str) -> Plugin:
        """What knows a subject that is configured or has a rig, or that only a trigger sees."""
        if self.is_own(name):
            from operator_sre.app.own_subject import own_plugin

            return own_plugin(self)
        if self.is_alerted(name):
            from operator_sre.app.alerts import alerted_plugin

            return alerted_plugin(self, name)
        plugins = {subject.name: subject.plugin for subject in self.config.subjects}
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
        from operator_sre.app.description import judge_by
        from operator_sre.app.secret_store import secret_reader

        configured = {subject.name: subject.options for subject in self.config.subjects}
        options = configured.get(name, {})
        if self.is_rig(name):
            options = load_lab().read_options(self.rig_directory(name))
        return SubjectSettings(
            name,
            targets,
            self.clock,
            self.config.number("timeout_s"),
            options,
            secret_reader(self.config, name),
            shell,
            life,
            judge_by(self.rules),
        )

    def controls(self, name: str) -> Controls:
        """Everything to operate a subject, or MACHINE. LedgerDamagedError on a damaged store."""
        from operator_sre.app.wiring.controls import build_controls

        self.store.must_be_whole()
        return build_controls(self, name)

    def engine(self, stats: WatchStats | None = None) -> LocalEngine:
        """The loops that watch and work, on this home; `stats` tell how watching goes."""
        from operator_sre.app.wiring.engines import engine_of

        return engine_of(self, stats)

    def engine_named(self, name: str, *, worker: str) -> Engine:
        """The engine of a worker of this id: `local`, or `dbos` for many machines."""
        from operator_sre.engine.cluster import engine_named

        local, store = replace(self.engine(), worker=worker), self.store
        return engine_named(
            name, local, self.config.store, backlog=store.backlog, workers=store.workers
        )


def choose_subjects(
    named: Sequence[str], *, known: Sequence[str], installed: Sequence[str]
) -> list[str]:
    """The subjects that were named, or the only one there is.

    An unknown subject gets another error than an installed one without a rig.
    """
    for name in named:
        if name in known:
            continue
        if name in installed:
            raise NotFoundError(f"{name!r} is not configured and has no rig.", next_step=START)
        listing = f"Subjects here: {', '.join(known) or 'none'}."
        raise NotFoundError(f"There is no subject {name!r}.", next_step=listing)
    if named:
        return list(dict.fromkeys(named))
    if len(known) == 1:
        return list(known)
    if not known:
        raise UsageError("No subject is configured.", next_step=START)
    raise UsageError(
        "Several subjects are configured.",
        next_step=f"Name one with --subject: {', '.join(known)}.",
    )


@contextmanager
def open_app(config: Config) -> Iterator[App]:
    """The home of `config`, opened for the length of a `with`."""
    with _open_at(config, config.store) as app:
        yield app


@contextmanager
def look_at_app(config: Config) -> Iterator[App]:
    """The same for readers: a home that does not exist is not created."""
    if not isinstance(config.store, Path) or config.store.exists():
        with open_app(config) as app:
            yield app
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        _open_at(config, Path(folder) / config.store.name) as app,
    ):
        yield app


@contextmanager
def _open_at(config: Config, where: str | Path) -> Iterator[App]:
    clock, key = SystemClock(), KeyFile(config.ledger_key)
    store = open_store_at(where, _store_rules(config, clock, key, where))
    kept_s = config.number("history_days") * 86_400
    store.observations.keep(kept=int(config.number("history_looks")), kept_s=kept_s)
    store.alerts.keep(kept_s=kept_s)
    policy: list[PolicyFile] = []

    def rulebook() -> Rulebook:
        from operator_sre.app.policy import policy_file

        if not policy:  # readers of the store need no policy
            policy.append(policy_file(config))
        return policy[0].book()

    try:
        yield App(config, store, clock, key, lambda: secrets.token_hex(16), rulebook)
    finally:
        store.close()


def maintenance_of(config: Config) -> Maintenance:
    """The store of `config` as a whole; nothing is opened or made yet."""
    from operator_sre.store.maintenance import Maintenance

    return Maintenance(
        database=database_at(config.store),
        rules=_store_rules(config, SystemClock(), KeyFile(config.ledger_key), config.store),
        backups=config.home / "backups",
    )


def kept_head(config: Config, clock: Clock, key: KeyFile) -> KeptHead:
    """Where this home keeps the head of its store: one file for each store it is used with."""
    place = database_at(config.store).place
    name = sha256(place.encode()).hexdigest()[:16] if isinstance(config.store, str) else "operator"
    # A home may be moved with all that is in it.
    store = place if isinstance(config.store, str) else config.store.name
    return KeptHead(config.home / f"{name}.head", key, clock, store=store)


def _store_rules(config: Config, clock: Clock, key: KeyFile, where: str | Path) -> Rules:
    redactor: list[Redactor] = []

    def redact(payload: Any) -> Any:
        from operator_sre.app.redaction import open_redactor

        if not redactor:  # created on first use: readers need none
            redactor.append(open_redactor(config))
        return redactor[0].value(payload)

    # What is thrown away afterwards is not the store of this home.
    head = kept_head(config, clock, key) if where == config.store else None
    return Rules(clock, redact, Vault(config.home / "vault.key"), key, head=head)
