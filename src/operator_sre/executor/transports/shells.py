"""The one Shell that the executor asks: it finds where an action's target has its commands run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError, ExecutorError, MissingExtraError, OperatorError
from operator_protocols.ports import Job, Shell
from operator_sre.executor.docker import Engine
from operator_sre.executor.docker.engine import EngineError
from operator_sre.executor.execute import Prepared, Preparing
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.docker import DockerWire, KubectlWire
from operator_sre.executor.transports.local import Gives, given_nothing
from operator_sre.executor.transports.places import Container, Here, Host, Place, Pod, place_of
from operator_sre.executor.transports.remote import RemoteShell
from operator_sre.executor.transports.script import Wire
from operator_sre.executor.transports.ssh import SshSettings, SshWire

__all__ = ["HERE", "Remotes", "Shells"]

HERE = "local"


@dataclass(frozen=True, slots=True)
class Remotes:
    """Makes the shells of other places, each as it is needed."""

    programs: Programs
    spool: Spool
    ssh: SshSettings = field(default_factory=SshSettings)
    engine: Engine = field(default_factory=Engine)
    kubectl: str = "kubectl"
    gives: Gives = given_nothing

    def shell_at(self, place: Host | Container | Pod) -> RemoteShell:
        """A shell there; it connects when it is first used."""
        match place:
            case Host():
                wire: Wire = SshWire(place, self.ssh)
            case Container():
                wire = DockerWire(place, self.engine)
            case Pod():
                wire = KubectlWire(place, self.programs, kubectl=self.kubectl)
        remembers = isinstance(place, Host)
        return RemoteShell(wire, str(place), self.spool, remembers=remembers, gives=self.gives)


class Shells:
    """Passes each action on to the shell of its target; without a target it runs here."""

    def __init__(
        self, local: Shell, targets: Callable[[], Iterable[Target]], remotes: Remotes
    ) -> None:
        self._local = local
        self._targets = targets
        self._remotes = remotes
        self._open: dict[Place, RemoteShell] = {}

    def prepare(self, action: Action, job: Job) -> Prepared | None:
        """Get ready for a command on this machine; other places cannot."""
        with contextlib.suppress(OperatorError):  # `run` says why
            is_here = isinstance(self._place_of(action.target), Here)
            if is_here and isinstance(self._local, Preparing):
                return self._local.prepare(action, job)
        return None

    async def run(self, action: Action, job: Job) -> Result:
        """Run it where its target is; never raises for what the command does."""
        try:
            shell = self._shell_of(action.target)
            if isinstance(shell, RemoteShell) and await shell.identify() != action.place:
                why = (
                    f"{action.target!r} is another machine, container or pod than the permitted "
                    "one."
                )
                return Result(Outcome.REFUSED, stderr=why, category=FailureCategory.NOT_FOUND)
            return await shell.run(action, job)
        except EngineError as error:
            return Result(Outcome.REFUSED, stderr=str(error), category=error.failure)
        except (ConfigError, ExecutorError, MissingExtraError) as error:
            category = FailureCategory.NOT_FOUND
            return Result(Outcome.REFUSED, stderr=str(error), category=category)

    async def recover(self, action: Action, job: Job) -> Result:
        """What became of a job there; it starts nothing."""
        try:
            return await self._shell_of(action.target).recover(action, job)
        except (ConfigError, MissingExtraError) as error:
            return Result(Outcome.UNKNOWN, stderr=str(error))

    async def identify(self, target: str) -> str:
        """What a permit for this target is bound to; raises OperatorError when it is unknown."""
        shell = self._shell_of(target)
        if not isinstance(shell, RemoteShell):
            return HERE
        try:
            return await shell.identify()
        except OSError as error:
            raise ExecutorError(f"Cannot find out where {target!r} runs commands.") from error

    async def aclose(self) -> None:
        """Let go of every place."""
        shells, self._open = list(self._open.values()), {}
        for shell in shells:
            await shell.aclose()

    def _shell_of(self, name: str) -> Shell:
        place = self._place_of(name)
        if isinstance(place, Here):
            return self._local
        if place not in self._open:
            self._open[place] = self._remotes.shell_at(place)
        return self._open[place]

    def _place_of(self, name: str) -> Place:
        if not name:
            return Here()
        places = {place_of(target.runs_at) for target in self._targets() if target.name == name}
        if not places:
            raise ConfigError(
                f"There is no target {name!r} to run a command on.",
                next_step="`operator subjects` lists the targets.",
            )
        if len(places) > 1:
            raise ConfigError(
                f"Several targets are named {name!r}, and they run commands at different places.",
                next_step="Give them different names.",
            )
        return places.pop()
