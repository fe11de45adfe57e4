"""Commands for a part of the cluster: who starts it again, and where its own tools run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Level
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.subjects.tikv.kinds import PD, addresses_of
from operator_sre.subjects.tikv.options import Options

__all__ = ["Command", "Placing", "restart_command", "run", "words_of"]

DOCKER = "docker://"
END_S = 30  # how long a container may take to end by itself
WORDS_MAX = 300


@runtime_checkable
class Placing(Protocol):
    """A shell that can tell where the commands of a target run now."""

    async def identify(self, target: str) -> str:
        """What names that place, as long as it is the same one."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its words; `target` is where it runs, this machine where it is ""."""

    argv: tuple[str, ...]
    target: str = ""


def restart_command(target: Target, options: Options) -> Command | str:
    """How its people restart it, by the options of the subject; or why nobody here can."""
    by = options.restart_by or ("docker" if target.runs_at.startswith(DOCKER) else "")
    address = next(iter(addresses_of(target)), "")
    if by == "docker":
        container = target.runs_at.removeprefix(DOCKER)
        if not target.runs_at.startswith(DOCKER) or not container:
            return f"{target.name} says nothing of its container: set runs_at = 'docker://NAME'."
        return Command(("docker", "restart", "--time", str(END_S), container))
    if by == "tiup":
        if not options.tiup_cluster:
            return "tiup restarts parts of a cluster by its name: set 'tiup_cluster'."
        name = options.tiup_cluster
        return Command(("tiup", "cluster", "restart", name, "--node", address, "--yes"))
    if by == "systemd":
        unit = options.pd_unit if target.kind == PD else options.store_unit
        named = unit.replace("{port}", str(target.port)).replace("{target}", target.name)
        return Command(("systemctl", "restart", "--", f"{named}.service"), target.name)
    return f"Nobody here can restart {target.name}: set 'restart_by' to docker, systemd or tiup."


async def run(settings: SubjectSettings, command: Command, job: Job) -> Result:
    """Run it where it belongs. What the gate blocks is not run, whoever asked for it."""
    shell = settings.shell
    if shell is None:
        return _refused("No command can be run here.", FailureCategory.PERMISSION)
    action = replace(Action.program(command.argv), target=command.target)
    if settings.judge is not None:
        verdict = settings.judge(action)
        if verdict.level is Level.BLOCKED:
            return _refused(f"Its command never runs: {verdict.explanation}", _PERMISSION)
    if command.target and isinstance(shell, Placing):
        # A place of another machine is looked at before it is used; this one has no name.
        known = {one.name: one for one in settings.targets()}
        if known[command.target].runs_at:
            action = replace(action, place=await shell.identify(command.target))
    return await shell.run(action, job)


_PERMISSION = FailureCategory.PERMISSION


def words_of(result: Result) -> str:
    """What a command said last about why it failed."""
    said: Sequence[str] = (result.stderr or result.stdout).strip().splitlines()
    return said[-1].strip()[:WORDS_MAX].rstrip(".") if said else f"exit code {result.exit_code}"


def _refused(why: str, category: FailureCategory) -> Result:
    return Result(Outcome.REFUSED, stderr=why, category=category)
