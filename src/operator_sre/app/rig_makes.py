"""What the rig of a subject is made of: chosen, and brought to life."""

from __future__ import annotations

from pathlib import Path

from operator_protocols.domain.target import Target
from operator_protocols.errors import MissingExtraError, RigError, UsageError
from operator_protocols.ports import Plugin
from operator_sre.lab.rig import Rig
from operator_sre.lab.rigs import AnyRig, Make
from operator_sre.lab.stacks.command import find_compose
from operator_sre.lab.stacks.containers import Containers, at_once
from operator_sre.lab.stacks.raising import raise_stack
from operator_sre.plugins import find_plugin, plugin_names

__all__ = ["check_rig", "no_rig", "parts_of", "raise_rig", "rigs_there_are"]


async def raise_rig(subject: str, directory: Path, *, make: str | None, owned: bool) -> AnyRig:
    """Bring one up. Without a `make` it is of processes where they can be had, else containers."""
    plugin = find_plugin(subject)
    chosen = _chosen(plugin, make)
    if chosen is Make.PROCESSES and plugin.rig is not None:
        return await Rig.up(plugin.rig(), directory, owned=owned)
    if chosen is Make.COMPOSE and plugin.stack is not None:
        return await raise_stack(plugin.stack(), directory, owned=owned)
    if chosen is None:
        raise UsageError(f"The subject {subject!r} has no rig.", next_step=rigs_there_are())
    raise UsageError(
        f"The subject {subject!r} has no rig of {chosen}.", next_step=_makes_told(plugin)
    )


def rigs_there_are() -> str:
    """The subjects that have a rig, as a sentence."""
    able = [name for name in plugin_names() if _makes(find_plugin(name))]
    return f"Rigs: {', '.join(able) or 'none'}."


def no_rig(plugin: Plugin) -> str:
    """Why there cannot be a rig on this machine, as far as can be told without Docker, or ""."""
    if plugin.stack is not None:
        return ""
    return "it has no rig" if plugin.rig is None else _lacking(plugin)


def check_rig(plugin: Plugin) -> None:
    """OperatorError where no rig can be had here, looked at before anything is begun."""
    match _chosen(plugin, None):
        case Make.PROCESSES if plugin.rig is not None:
            plugin.rig()
        case Make.COMPOSE if plugin.stack is not None:
            plugin.stack()
            at_once(find_compose())
            at_once(Containers("").reach())
        case _:
            raise UsageError(f"The subject {plugin.name!r} has no rig.")


def parts_of(plugin: Plugin) -> tuple[Target, ...]:
    """The parts of a rig that is not up, as its description tells."""
    if _chosen(plugin, None) is Make.PROCESSES and plugin.rig is not None:
        return tuple(
            Target(one.name, one.kind, depends_on=one.depends_on) for one in plugin.rig().processes
        )
    services = () if plugin.stack is None else plugin.stack().services
    return tuple(Target(one.name, one.kind, depends_on=one.depends_on) for one in services)


def _lacking(plugin: Plugin) -> str:
    """What the processes of a rig need and this machine does not have, or ""."""
    if plugin.rig is None:
        return ""
    try:
        plugin.rig()
    except (MissingExtraError, RigError) as problem:
        return str(problem)
    return ""


def _has_no_programs(plugin: Plugin) -> bool:
    """Whether containers are the nearer way: an extra is installed by one command."""
    if plugin.rig is None:
        return False
    try:
        plugin.rig()
    except MissingExtraError:
        return False
    except RigError:
        return True
    return False


def _makes(plugin: Plugin) -> tuple[Make, ...]:
    there = {Make.PROCESSES: plugin.rig, Make.COMPOSE: plugin.stack}
    return tuple(make for make, factory in there.items() if factory is not None)


def _makes_told(plugin: Plugin) -> str:
    return f"Rigs of {plugin.name}: {', '.join(_makes(plugin)) or 'none'}."


def _chosen(plugin: Plugin, told: str | None) -> Make | None:
    makes = _makes(plugin)
    if told is not None:
        if told not in list(Make):
            raise UsageError(
                f"A rig cannot be made of {told[:80]!r}.", next_step=_makes_told(plugin)
            )
        return Make(told)
    if len(makes) > 1 and _has_no_programs(plugin):
        return Make.COMPOSE
    return makes[0] if makes else None
