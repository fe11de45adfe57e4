"""Scenarios out of what plug-ins bring: every fault of a rig, and the controls of each subject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operator_protocols.errors import MissingExtraError, NotFoundError, RigError, UsageError
from operator_protocols.ports import Fault, Plugin
from operator_sre.evals.campaign import Campaign, Control, Planned, Scenario
from operator_sre.plugins import find_plugin, plugin_names

__all__ = ["choose", "planned", "scenarios_of"]

# What such an invariant says, a busy neighbour would break as well.
OF_SPEED = ("latency", "slow")
# Every third fault, by name, is kept apart: causes are written without looking at it.
APART_EACH = 3


def scenarios_of(subject: str) -> tuple[Scenario, ...]:
    """All scenarios of a subject, its controls last; none where it has no rig."""
    plugin = find_plugin(subject)
    if plugin.rig is None and plugin.stack is None:
        return ()
    ordered = sorted(plugin.faults, key=lambda fault: fault.name)
    broken = [_scenario(plugin, fault, number) for number, fault in enumerate(ordered)]
    return (*broken, *(Scenario(subject, one.value) for one in Control))


def _scenario(plugin: Plugin, fault: Fault, number: int) -> Scenario:
    return Scenario(
        subject=plugin.name,
        fault=fault.name,
        end=fault.end,
        breaks=fault.breaks,
        truths=plugin.truths.get(fault.name, ()),
        apart=number % APART_EACH == APART_EACH - 1,
        alone=any(word in fault.breaks[0] for word in OF_SPEED),
    )


def choose(words: Iterable[str]) -> tuple[Scenario, ...]:
    """What words such as `SUBJECT` or `SUBJECT:FAULT` name, each once.

    Where none is given, all whose processes can be had on this machine.
    """
    wanted = list(words) or [name for name in plugin_names() if _can_be_had(find_plugin(name))]
    found: dict[str, Scenario] = {}
    for word in wanted:
        subject, _, fault = word.partition(":")
        found |= {one.name: one for one in _named(subject, fault)}
    return tuple(found.values())


def _can_be_had(plugin: Plugin) -> bool:
    """Whether its processes can; an extra that is missing is told of, and not passed over."""
    if plugin.rig is None:
        return False
    try:
        plugin.rig()
    except RigError:
        return False
    except MissingExtraError:
        return True
    return True


def _named(subject: str, fault: str) -> Sequence[Scenario]:
    known = scenarios_of(subject)
    if not known:
        raise UsageError(
            f"The subject {subject!r} has no rig, so that nothing of it can be broken."
        )
    chosen = [one for one in known if fault in ("", one.fault)]
    if not chosen:
        names = ", ".join(one.fault for one in known)
        raise NotFoundError(f"{subject!r} has no fault {fault!r}.", next_step=f"Faults: {names}.")
    return chosen


def planned(campaign: Campaign) -> tuple[Planned, ...]:
    """Every trial of a campaign: first all with one seed, then all with the next."""
    first = campaign.first_seed
    found = [
        Planned(scenario, variant.name, first + number)
        for number in range(max(campaign.seeds.values(), default=0))
        for scenario in campaign.scenarios
        for variant in campaign.variants
        if number < campaign.seeds.get(variant.name, 0)
    ]
    if len(found) > campaign.trials_max:
        raise UsageError(
            f"The campaign has {len(found)} trials, at most {campaign.trials_max} are allowed.",
            next_step="Name fewer scenarios or seeds, or raise 'trials_max'.",
        )
    return tuple(found)
