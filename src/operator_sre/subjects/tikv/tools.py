"""What can be done to a TiKV cluster: to schedulers of PD, to regions, to its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import FailureCategory
from operator_protocols.kit.tool import Done, RefusedCall, find_target, rotate_log_of
from operator_protocols.ports import SubjectSettings, Tool
from operator_sre.subjects.tikv.call import DEFAULTS, Live, PdCall, tool_for
from operator_sre.subjects.tikv.kinds import PD, STORE
from operator_sre.subjects.tikv.state import EVICT_LEADER
from operator_sre.subjects.tikv.tools_parts import (
    compact_store,
    drain_store,
    restart_pd,
    restart_store,
    undrain_store,
)
from operator_sre.subjects.tikv.tools_regions import (
    cancel_operator,
    merge_region,
    split_region,
    transfer_leader,
    transfer_peer,
)

__all__ = [
    "STRAY",
    "add_scheduler",
    "pause_scheduler",
    "remove_scheduler",
    "resume_scheduler",
    "rotate_log",
    "tikv_tools",
]

# Schedulers that people add for a while, to drain a store or to try something out.
STRAY = (
    EVICT_LEADER,
    "grant-hot-region-scheduler",
    "grant-leader-scheduler",
    "random-merge-scheduler",
    "scatter-range-scheduler",
    "shuffle-hot-region-scheduler",
    "shuffle-leader-scheduler",
    "shuffle-region-scheduler",
)


async def pause_scheduler(call: PdCall) -> Done:
    """For a time that is known: it goes on by itself."""
    live = await call.read_live()
    name, seconds = _require_scheduler(live, call.text("name")), call.integer("seconds")
    if name.startswith(EVICT_LEADER):
        raise RefusedCall(f"{name} drains a store; use undrain_store instead.")
    await call.ask(f"schedulers/{name}", method="POST", body={"delay": seconds})
    await _wait_until(call, lambda now: name in now.paused, f"{name} is not paused")
    return Done(
        f"{name} is paused for {seconds} s.",
        {"changed": True, "name": name, "seconds": seconds},
        Action("resume_scheduler", {"name": name}),
    )


async def resume_scheduler(call: PdCall) -> Done:
    """At once, however long it was to rest."""
    live = await call.read_live()
    name = _require_scheduler(live, call.text("name"))
    if name not in live.paused:
        return Done(f"{name} is not paused.", {"changed": False, "name": name})
    await call.ask(f"schedulers/{name}", method="POST", body={"delay": 0})
    await _wait_until(call, lambda now: name not in now.paused, f"{name} is still paused")
    return Done(
        f"{name} is active again.",
        {"changed": True, "name": name},
        Action("pause_scheduler", {"name": name}),
    )


async def add_scheduler(call: PdCall) -> Done:
    """A scheduler that every PD has from its first day on."""
    live = await call.read_live()
    name = call.text("name")
    if name in live.schedulers:
        return Done(f"PD already has {name}.", {"changed": False, "name": name})
    await call.ask("schedulers", method="POST", body={"name": name})
    await _wait_until(call, lambda now: name in now.schedulers, f"PD does not list {name}")
    return Done(f"PD has {name} again.", {"changed": True, "name": name})


async def remove_scheduler(call: PdCall) -> Done:
    """Never a scheduler that keeps the cluster in balance: it may be paused, and not removed."""
    live = await call.read_live()
    name = call.text("name")
    if name in DEFAULTS:
        raise RefusedCall(f"{name} must not be removed; use pause_scheduler.")
    if not any(name == prefix or name.startswith(f"{prefix}-") for prefix in STRAY):
        raise RefusedCall(f"{name[:60]!r} is not a temporary scheduler.", FailureCategory.SYNTAX)
    if not _has_scheduler(live, name):
        return Done(f"PD has no {name}.", {"changed": False, "name": name})
    await call.ask(f"schedulers/{name}", method="DELETE")
    await _wait_until(call, lambda now: not _has_scheduler(now, name), f"PD still lists {name}")
    return Done(f"{name} is removed.", {"changed": True, "name": name})


def _has_scheduler(live: Live, name: str) -> bool:
    """Whether PD has it; for the scheduler that drains stores, whether it drains that store."""
    store = name.removeprefix(f"{EVICT_LEADER}-")
    return name in live.schedulers or (store.isdecimal() and int(store) in live.evicting)


def _require_scheduler(live: Live, name: str) -> str:
    if name not in live.schedulers:
        known = ", ".join(live.schedulers) or "none"
        why = f"PD has no scheduler {name[:60]!r}; there are: {known}."
        raise RefusedCall(why, FailureCategory.NOT_FOUND)
    return name


async def _wait_until(call: PdCall, holds: Callable[[Live], bool], otherwise: str) -> None:
    while await call.wait():
        if holds(await call.read_live()):
            return
    raise RefusedCall(f"{otherwise} after {call.job.timeout_s:g} s.", FailureCategory.TIMEOUT)


async def rotate_log(call: PdCall) -> Done:
    """A copy first, and only then less of it; a log on another machine is not ours to cut."""
    target = find_target(call.settings.targets(), call.text("target"), STORE, PD)
    if target.log and not target.runs_at:
        call.begin()
    return await rotate_log_of(target)


def tikv_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All of them, for one cluster."""
    acts = (
        *(transfer_leader, transfer_peer, drain_store, undrain_store, split_region),
        *(merge_region, compact_store, pause_scheduler, resume_scheduler, add_scheduler),
        *(remove_scheduler, cancel_operator, restart_store, restart_pd, rotate_log),
    )
    return tuple(tool_for(settings, act) for act in acts)
