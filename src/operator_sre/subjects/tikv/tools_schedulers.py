"""What can be done to the schedulers of PD: rest, go on, come back, go."""

from __future__ import annotations

from collections.abc import Callable

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import FailureCategory
from operator_sre.subjects.tikv.deed import Deed, Done, Refusal
from operator_sre.subjects.tikv.live import DEFAULTS, Live
from operator_sre.subjects.tikv.state import EVICT_LEADER

__all__ = ["STRAY", "add_scheduler", "pause_scheduler", "remove_scheduler", "resume_scheduler"]

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


async def pause_scheduler(deed: Deed) -> Done:
    """For a time that is known: it goes on by itself."""
    live = await deed.look()
    name, seconds = _known(live, deed.text("name")), deed.integer("seconds")
    if name.startswith(EVICT_LEADER):
        raise Refusal(f"{name} drains a store; undrain_store is what ends that.")
    await deed.ask(f"schedulers/{name}", method="POST", body={"delay": seconds})
    await _until(deed, lambda now: name in now.paused, f"{name} is not paused")
    return Done(
        f"{name} rests for {seconds} s.",
        {"changed": True, "name": name, "seconds": seconds},
        Action("resume_scheduler", {"name": name}),
    )


async def resume_scheduler(deed: Deed) -> Done:
    """At once, however long it was to rest."""
    live = await deed.look()
    name = _known(live, deed.text("name"))
    if name not in live.paused:
        return Done(f"{name} is not paused.", {"changed": False, "name": name})
    await deed.ask(f"schedulers/{name}", method="POST", body={"delay": 0})
    await _until(deed, lambda now: name not in now.paused, f"{name} is still paused")
    told = f"{name} works again."
    return Done(told, {"changed": True, "name": name}, Action("pause_scheduler", {"name": name}))


async def add_scheduler(deed: Deed) -> Done:
    """One of those that every PD has from its first day on."""
    live = await deed.look()
    name = deed.text("name")
    if name in live.schedulers:
        return Done(f"PD has {name} already.", {"changed": False, "name": name})
    await deed.ask("schedulers", method="POST", body={"name": name})
    await _until(deed, lambda now: name in now.schedulers, f"PD does not list {name}")
    return Done(f"PD has {name} again.", {"changed": True, "name": name})


async def remove_scheduler(deed: Deed) -> Done:
    """Never one that keeps the cluster in balance: that one may rest, and not go."""
    live = await deed.look()
    name = deed.text("name")
    if name in DEFAULTS:
        raise Refusal(f"No cluster should be without {name}; pause_scheduler has it rest.")
    if not any(name == one or name.startswith(f"{one}-") for one in STRAY):
        raise Refusal(f"{name[:60]!r} is not of those that people leave behind.", _SYNTAX)
    if not _there(live, name):
        return Done(f"PD has no {name}.", {"changed": False, "name": name})
    await deed.ask(f"schedulers/{name}", method="DELETE")
    await _until(deed, lambda now: not _there(now, name), f"PD still lists {name}")
    return Done(f"{name} is removed.", {"changed": True, "name": name})


_SYNTAX = FailureCategory.SYNTAX


def _there(live: Live, name: str) -> bool:
    """Whether PD has it; of the one that drains stores, whether it drains that store."""
    store = name.removeprefix(f"{EVICT_LEADER}-")
    return name in live.schedulers or (store.isdecimal() and int(store) in live.evicting)


def _known(live: Live, name: str) -> str:
    if name not in live.schedulers:
        known = ", ".join(live.schedulers) or "none"
        why = f"PD has no scheduler {name[:60]!r}; there are: {known}."
        raise Refusal(why, FailureCategory.NOT_FOUND)
    return name


async def _until(deed: Deed, holds: Callable[[Live], bool], otherwise: str) -> None:
    while await deed.again():
        if holds(await deed.look()):
            return
    raise Refusal(f"{otherwise} after {deed.timeout_s:g} s.", FailureCategory.TIMEOUT)
