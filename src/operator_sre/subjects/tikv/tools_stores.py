"""What can be done to one store: drain it, let it lead again, compact it, restart it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_sre.subjects.tikv.control import Command, restart_command, run, words_of
from operator_sre.subjects.tikv.deed import Deed, Done, Refusal
from operator_sre.subjects.tikv.live import GRANT_LEADER, UP, Live
from operator_sre.subjects.tikv.state import EVICT_LEADER, Store
from operator_sre.subjects.tikv.tools_regions import store_named

__all__ = ["alone", "compact_store", "drain_store", "restart_store", "restarter", "undrain_store"]

# Leaders that go away show in PD's counts with the next heartbeat of the store.
MOVING_S = 45.0
TELLING_S = 5.0
ROOM_RATIO_MIN = 0.1
DRAIN_SHARE = 0.4  # of the time of a restart


async def drain_store(deed: Deed) -> Done:
    """One store at a time, and only while all others are there to lead."""
    live = await deed.look()
    store = store_named(live, deed.text("target"))
    name = live.name_of(store.id)
    if store.state != UP:
        why = f"{name} is {store.state}: PD moves its leaders away by itself."
        raise Refusal(why, FailureCategory.RESOURCE)
    _may_drain(live, store)
    undo = Action("undrain_store", {"target": name}, target=name)
    data = {"changed": store.id not in live.evicting, "was": store.leader_count}
    deed.begin()
    await _evict(deed, live, store)
    try:
        left = await _drained(deed, store, within_s=deed.left_s - TELLING_S)
    except asyncio.CancelledError:
        await _let_lead(deed, live, store)
        raise
    if left >= store.leader_count > 0:
        await _let_lead(deed, live, store)
        why = f"No leader left {name}, so its scheduler is removed again: see operators and limits."
        raise Refusal(why, FailureCategory.TIMEOUT)
    gone = "leads nothing any more" if not left else f"still leads {left} regions, and it goes on"
    told = f"{name} {gone}; it led {store.leader_count}. It gets no leader until undrain_store."
    return Done(told, {**data, "leaders": left}, undo)


async def undrain_store(deed: Deed) -> Done:
    """Always possible: it takes back what drain_store did."""
    live = await deed.look()
    store = store_named(live, deed.text("target"))
    name = live.name_of(store.id)
    if store.id not in live.evicting:
        return Done(f"{name} is not drained by anybody.", {"changed": False})
    await deed.ask(f"schedulers/{EVICT_LEADER}-{store.id}", method="DELETE")
    while await deed.again():
        if store.id not in (await deed.look()).evicting:
            told = f"{name} may lead again; PD moves leaders to it by and by."
            back = Action("drain_store", {"target": name}, target=name)
            return Done(told, {"changed": True}, back)
    raise Refusal(f"PD still drives leaders away from {name}.", FailureCategory.TIMEOUT)


async def compact_store(deed: Deed) -> Done:
    """By tikv-ctl beside the store; it needs room before it gives any back."""
    live = await deed.look()
    store = store_named(live, deed.text("target"))
    name = live.name_of(store.id)
    target = deed.part(name, store)
    if store.state != UP:
        raise Refusal(f"{name} is {store.state}.", FailureCategory.RESOURCE)
    alone(live, store, "is compacted")
    if store.capacity_bytes and store.available_bytes < ROOM_RATIO_MIN * store.capacity_bytes:
        raise Refusal(
            f"{name} has less than {ROOM_RATIO_MIN:.0%} of its disk left, and compacting writes"
            " new files before it removes old ones. Make room first.",
            FailureCategory.RESOURCE,
        )
    cf = deed.text("cf")
    argv = (
        deed.options.tikv_ctl,
        *_identity(target),
        *("--host", store.address, "compact", "--db", "kv", "--cf", cf),
    )
    deed.begin()
    job = replace(deed.job, timeout_s=max(1.0, deed.left_s - TELLING_S))
    listed = {one.name for one in deed.settings.targets()}
    # Where nobody says how to run commands beside it, it is reached from here as well.
    result = await run(deed.settings, Command(argv, name if name in listed else ""), job)
    if not result.ok:
        raise Refusal(f"{name} was not compacted: {words_of(result)}.", result.category or _RUNTIME)
    now = store_named(await deed.look(), name)
    if now.state != UP:
        raise Refusal(f"{name} was compacted, and PD calls it {now.state} now.")
    told = f"{name} rewrote its column family {cf}."
    freed = now.available_bytes - store.available_bytes
    return Done(told, {"changed": True, "cf": cf, "freed_bytes": freed})


async def restart_store(deed: Deed) -> Done:
    """One that serves is drained first, and gets its leaders back; one that is gone is started."""
    live = await deed.look()
    store = store_named(live, deed.text("target"))
    name = live.name_of(store.id)
    target = deed.part(name, store)
    if store.planned:
        raise Refusal(f"{name} is {store.state}: somebody wants it to leave.")
    answers = await deed.answers(name, store)
    if answers or store.state == UP:
        # Its peers may still hear it: with another one away, that would be too many.
        alone(live, store, "is restarted")
    serves = answers and store.state == UP and store.leader_count > 0
    drained = serves and store.id not in live.evicting
    start = restarter(deed, target)
    deed.begin()
    try:
        if drained:
            await _evict(deed, live, store)
            await _drained(deed, store, within_s=deed.left_s * DRAIN_SHARE)
        await start()
        await _back(deed, store, name)
    finally:
        if drained:
            await _let_lead(deed, live, store)
    first = "was drained and restarted" if drained else "was restarted"
    return Done(f"{name} {first}, and PD calls it Up.", {"changed": True, "drained": drained})


def alone(live: Live, store: Store, what: str) -> None:
    """Refuse while another store is away or drained: copies of a region lie on both."""
    if trouble := live.troubled(but=store.id):
        raise Refusal(
            f"{trouble}, and one store at a time {what}: regions with copies on both would be"
            " left without a majority.",
            FailureCategory.RESOURCE,
        )


def restarter(deed: Deed, target: Target) -> Callable[[], Awaitable[None]]:
    """Who restarts a part: the rig, or a command of its people. Refusal where nobody can.

    It may not answer yet when that returns.
    """
    life = deed.settings.life
    command = restart_command(target, deed.options) if life is None else Command(())
    if isinstance(command, str):
        raise Refusal(command, FailureCategory.PERMISSION)

    async def start() -> None:
        if life is not None:
            await life.restart(target.name)
            return
        job = replace(deed.job, timeout_s=max(1.0, deed.left_s - TELLING_S))
        result = await run(deed.settings, command, job)
        if not result.ok:
            why = f"{target.name} was not restarted: {words_of(result)}."
            raise Refusal(why, result.category or _RUNTIME)

    return start


_RUNTIME = FailureCategory.RUNTIME


def _may_drain(live: Live, store: Store) -> None:
    alone(live, store, "is drained")
    if not live.heirs(but=store.id):
        raise Refusal(f"Nobody else could lead what {live.name_of(store.id)} leads.", _RESOURCE)
    if store.id in live.granting:
        name = f"{GRANT_LEADER}-{store.id}"
        raise Refusal(f"{name} gives it all leaders; remove_scheduler has to end that first.")
    if any(one.startswith(EVICT_LEADER) for one in live.paused):
        raise Refusal(f"{EVICT_LEADER} is paused, so that nothing would move; resume it first.")


_RESOURCE = FailureCategory.RESOURCE


async def _evict(deed: Deed, live: Live, store: Store) -> None:
    if store.id not in live.evicting:
        body = {"name": EVICT_LEADER, "store_id": store.id}
        await deed.ask("schedulers", method="POST", body=body)


async def _let_lead(deed: Deed, live: Live, store: Store) -> None:
    """Take back what this deed began; not what somebody else had begun before it."""
    if store.id not in live.evicting:
        await deed.send(f"schedulers/{EVICT_LEADER}-{store.id}", method="DELETE")


async def _drained(deed: Deed, store: Store, *, within_s: float) -> int:
    """How many regions it leads when nothing moves any more, or the time is over."""
    ends = deed.left_s - within_s
    fewest, moved_at = store.leader_count, deed.left_s
    while await deed.again():
        left_s = deed.left_s
        now = (await deed.look()).find(str(store.id))
        leaders = now.leader_count if now is not None else fewest
        if leaders < fewest:
            fewest, moved_at = leaders, left_s
        if not leaders or left_s <= ends or moved_at - left_s > MOVING_S:
            return leaders
    return fewest


async def _back(deed: Deed, store: Store, name: str) -> None:
    """PD has heard of it since it was started anew."""
    while await deed.again():
        now = (await deed.look()).find(str(store.id))
        fresh = now is not None and (now.started != store.started or store.started is None)
        if now is not None and now.state == UP and fresh:
            return
    why = f"{name} was restarted, and PD does not call it Up after {deed.timeout_s:g} s."
    raise Refusal(why, FailureCategory.TIMEOUT)


def _identity(target: Target) -> tuple[str, ...]:
    """The files by which tikv-ctl says who it is."""
    access = target.access
    if access is None or not access.tls:
        return ()
    named = (
        ("--ca-path", access.ca_file),
        ("--cert-path", access.certificate_file),
        ("--key-path", access.key_file),
    )
    return tuple(word for flag, file in named if file for word in (flag, file))
