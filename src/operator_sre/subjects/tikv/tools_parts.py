"""What can be done to one part: drain, compact or restart a store, restart a member of PD."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Level
from operator_protocols.kit.tool import Done, RefusedCall, find_target
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.subjects.tikv.call import GRANT_LEADER, UP, Live, PdCall
from operator_sre.subjects.tikv.kinds import PD, addresses_of
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.state import EVICT_LEADER, Store, leader_from
from operator_sre.subjects.tikv.tools_regions import require_store

__all__ = [
    "Command",
    "Placing",
    "compact_store",
    "drain_store",
    "last_words",
    "restart_command",
    "restart_pd",
    "restart_store",
    "run",
    "undrain_store",
]

DOCKER = "docker://"
END_S = 30  # how long a container may take to end by itself
WORDS_MAX = 300
# Leaders that go away show in PD's counts with the next heartbeat of the store.
MOVING_S = 45.0
TELLING_S = 5.0
ROOM_RATIO_MIN = 0.1
DRAIN_SHARE = 0.4  # of the time of a restart
HAND_OVER_S = 20.0
_PERMISSION = FailureCategory.PERMISSION
_RESOURCE = FailureCategory.RESOURCE
_TIMEOUT = FailureCategory.TIMEOUT


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
    """How its owners restart it, by the options of the subject; or why it cannot be done here."""
    by = options.restart_by or ("docker" if target.runs_at.startswith(DOCKER) else "")
    address = next(iter(addresses_of(target)), "")
    if by == "docker":
        container = target.runs_at.removeprefix(DOCKER)
        if not target.runs_at.startswith(DOCKER) or not container:
            return f"The container of {target.name} is unknown: set runs_at = 'docker://NAME'."
        return Command(("docker", "restart", "--time", str(END_S), container))
    if by == "tiup":
        if not options.tiup_cluster:
            return "tiup needs the name of the cluster: set 'tiup_cluster'."
        name = options.tiup_cluster
        return Command(("tiup", "cluster", "restart", name, "--node", address, "--yes"))
    if by == "systemd":
        unit = options.pd_unit if target.kind == PD else options.store_unit
        named = unit.replace("{port}", str(target.port)).replace("{target}", target.name)
        return Command(("systemctl", "restart", "--", f"{named}.service"), target.name)
    return (
        f"{target.name} cannot be restarted from here: set 'restart_by' to docker, systemd or tiup."
    )


async def run(settings: SubjectSettings, command: Command, job: Job) -> Result:
    """Run it where it belongs. A command that the gate blocks never runs, on any request."""
    shell = settings.shell
    if shell is None:
        why = "Commands cannot be run here."
        return Result(Outcome.REFUSED, stderr=why, category=_PERMISSION)
    action = replace(Action.program(command.argv), target=command.target)
    if settings.judge is not None:
        verdict = settings.judge(action)
        if verdict.level is Level.BLOCKED:
            why = f"The gate blocks its command: {verdict.explanation}"
            return Result(Outcome.REFUSED, stderr=why, category=_PERMISSION)
    if command.target and isinstance(shell, Placing):
        # A place on another machine is checked before it is used; this machine has no name.
        known = {target.name: target for target in settings.targets()}
        if known[command.target].runs_at:
            action = replace(action, place=await shell.identify(command.target))
    return await shell.run(action, job)


def last_words(result: Result) -> str:
    """The last output of a command about why it failed."""
    lines = (result.stderr or result.stdout).strip().splitlines()
    return lines[-1].strip()[:WORDS_MAX].rstrip(".") if lines else f"exit code {result.exit_code}"


async def drain_store(call: PdCall) -> Done:
    """One store at a time, and only while all others are there to lead."""
    live = await call.read_live()
    store = require_store(live, call.text("target"))
    name = live.name_of(store.id)
    if store.state != UP:
        why = f"{name} is {store.state}: PD already moves its leaders away."
        raise RefusedCall(why, _RESOURCE)
    _require_others(live, store, "is drained")
    if not live.heirs(but=store.id):
        raise RefusedCall(f"No other store can lead the regions of {name}.", _RESOURCE)
    if store.id in live.granting:
        granting = f"{GRANT_LEADER}-{store.id}"
        raise RefusedCall(f"{granting} gives it all leaders; use remove_scheduler first.")
    if any(scheduler.startswith(EVICT_LEADER) for scheduler in live.paused):
        raise RefusedCall(f"{EVICT_LEADER} is paused, so no leader would move; resume it first.")
    undo = Action("undrain_store", {"target": name}, target=name)
    data = {"changed": store.id not in live.evicting, "was": store.leader_count}
    call.begin()
    await _evict(call, live, store)
    try:
        left = await _wait_drained(call, store, within_s=call.left_s - TELLING_S)
    except asyncio.CancelledError:
        await _let_lead(call, live, store)
        raise
    if left >= store.leader_count > 0:
        await _let_lead(call, live, store)
        why = f"No leader left {name}, so its scheduler is removed again: see operators and limits."
        raise RefusedCall(why, _TIMEOUT)
    gone = (
        "leads no region any more"
        if not left
        else f"still leads {left} regions, and the drain continues"
    )
    sentence = f"{name} {gone}; it led {store.leader_count}. It gets no leader until undrain_store."
    return Done(sentence, {**data, "leaders": left}, undo)


async def undrain_store(call: PdCall) -> Done:
    """Always possible: it rolls back drain_store."""
    live = await call.read_live()
    store = require_store(live, call.text("target"))
    name = live.name_of(store.id)
    if store.id not in live.evicting:
        return Done(f"{name} is not drained.", {"changed": False})
    await call.ask(f"schedulers/{EVICT_LEADER}-{store.id}", method="DELETE")
    while await call.wait():
        if store.id not in (await call.read_live()).evicting:
            sentence = f"{name} may lead again; PD gradually moves leaders to it."
            back = Action("drain_store", {"target": name}, target=name)
            return Done(sentence, {"changed": True}, back)
    raise RefusedCall(f"PD still evicts leaders from {name}.", _TIMEOUT)


async def compact_store(call: PdCall) -> Done:
    """By tikv-ctl beside the store; it needs room before it gives any back."""
    live = await call.read_live()
    store = require_store(live, call.text("target"))
    name = live.name_of(store.id)
    target = call.part(name, store)
    if store.state != UP:
        raise RefusedCall(f"{name} is {store.state}.", _RESOURCE)
    _require_others(live, store, "is compacted")
    if store.capacity_bytes and store.available_bytes < ROOM_RATIO_MIN * store.capacity_bytes:
        raise RefusedCall(
            f"{name} has less than {ROOM_RATIO_MIN:.0%} of its disk left, and compacting writes"
            " new files before it removes old ones. Free some space first.",
            _RESOURCE,
        )
    cf, argv = call.text("cf"), [call.options.tikv_ctl]
    if target.access is not None and target.access.tls:
        files = {
            "--ca-path": target.access.ca_file,
            "--cert-path": target.access.certificate_file,
            "--key-path": target.access.key_file,
        }
        argv += [word for flag, file in files.items() if file for word in (flag, file)]
    argv += ["--host", store.address, "compact", "--db", "kv", "--cf", cf]
    call.begin()
    job = replace(call.job, timeout_s=max(1.0, call.left_s - TELLING_S))
    listed = {target.name for target in call.settings.targets()}
    # Where no option says how to run commands beside it, it is reached from here as well.
    result = await run(call.settings, Command(tuple(argv), name if name in listed else ""), job)
    if not result.ok:
        raise RefusedCall(
            f"{name} was not compacted: {last_words(result)}.",
            result.category or FailureCategory.RUNTIME,
        )
    now = require_store(await call.read_live(), name)
    if now.state != UP:
        raise RefusedCall(f"{name} was compacted, and PD reports it as {now.state}.")
    sentence = f"{name} rewrote its column family {cf}."
    freed = now.available_bytes - store.available_bytes
    return Done(sentence, {"changed": True, "cf": cf, "freed_bytes": freed})


async def restart_store(call: PdCall) -> Done:
    """A serving store is drained first, and gets its leaders back; a stopped store is started."""
    live = await call.read_live()
    store = require_store(live, call.text("target"))
    name = live.name_of(store.id)
    target = call.part(name, store)
    if store.planned:
        raise RefusedCall(f"{name} is {store.state}: it is being decommissioned.")
    answers = await call.answers(name, store)
    if answers or store.state == UP:
        # Its peers may still hear it: with another one away, that would be too many.
        _require_others(live, store, "is restarted")
    serves = answers and store.state == UP and store.leader_count > 0
    drained = serves and store.id not in live.evicting
    start = _choose_restart(call, target)
    call.begin()
    try:
        if drained:
            await _evict(call, live, store)
            await _wait_drained(call, store, within_s=call.left_s * DRAIN_SHARE)
        await start()
        while await call.wait():
            now = (await call.read_live()).find(str(store.id))
            fresh = now is not None and (now.started != store.started or store.started is None)
            if now is not None and now.state == UP and fresh:
                break
        else:
            late = f"after {call.job.timeout_s:g} s"
            raise RefusedCall(
                f"{name} was restarted, but PD does not report it as Up {late}.", _TIMEOUT
            )
    finally:
        if drained:
            await _let_lead(call, live, store)
    first = "was drained and restarted" if drained else "was restarted"
    return Done(f"{name} {first}, and PD reports it as Up.", {"changed": True, "drained": drained})


def _require_others(live: Live, store: Store, done: str) -> None:
    """Refuse while another store is away or drained: copies of a region lie on both."""
    if trouble := live.find_trouble(but=store.id):
        raise RefusedCall(
            f"{trouble}, and one store at a time {done}: regions with replicas on both would"
            " lose their majority.",
            _RESOURCE,
        )


def _choose_restart(call: PdCall, target: Target) -> Callable[[], Awaitable[None]]:
    """How a part is restarted: by the rig, or by a command of its owners. RefusedCall where neither
    can.

    It may not answer yet when that returns.
    """
    life = call.settings.life
    command = restart_command(target, call.options) if life is None else Command(())
    if isinstance(command, str):
        raise RefusedCall(command, _PERMISSION)

    async def start() -> None:
        if life is not None:
            await life.restart(target.name)
            return
        job = replace(call.job, timeout_s=max(1.0, call.left_s - TELLING_S))
        result = await run(call.settings, command, job)
        if not result.ok:
            why = f"{target.name} was not restarted: {last_words(result)}."
            raise RefusedCall(why, result.category or FailureCategory.RUNTIME)

    return start


async def _evict(call: PdCall, live: Live, store: Store) -> None:
    if store.id not in live.evicting:
        body = {"name": EVICT_LEADER, "store_id": store.id}
        await call.ask("schedulers", method="POST", body=body)


async def _let_lead(call: PdCall, live: Live, store: Store) -> None:
    """Roll back what this call started; not an earlier drain."""
    if store.id not in live.evicting:
        await call.send(f"schedulers/{EVICT_LEADER}-{store.id}", method="DELETE")


async def _wait_drained(call: PdCall, store: Store, *, within_s: float) -> int:
    """How many regions it leads when nothing moves any more, or at the deadline."""
    ends = call.left_s - within_s
    fewest, moved_at = store.leader_count, call.left_s
    while await call.wait():
        left_s = call.left_s
        now = (await call.read_live()).find(str(store.id))
        leaders = now.leader_count if now is not None else fewest
        if leaders < fewest:
            fewest, moved_at = leaders, left_s
        if not leaders or left_s <= ends or moved_at - left_s > MOVING_S:
            return leaders
    return fewest


async def restart_pd(call: PdCall) -> Done:
    """An answering PD only while the others are a majority without it; a leader hands over."""
    target = find_target(call.settings.targets(), call.text("target"), PD)
    members = [member for member in call.settings.targets() if member.kind == PD]
    requests = (call.pd.at(member, "leader", itself=True) for member in members)
    answers = dict(
        zip((member.name for member in members), await asyncio.gather(*requests), strict=True)
    )
    reached = answers[target.name].reached
    others = sum(answer.ok and name != target.name for name, answer in answers.items())
    if reached and others < len(members) // 2 + 1:
        why = f"Without {target.name} PD would lose its majority, so it is not restarted."
        raise RefusedCall(why, _RESOURCE)
    start = _choose_restart(call, target)
    call.begin()
    leads = reached and await _leads(call, target)
    if leads:
        await call.ask("leader/resign", method="POST", body={})
        started = call.left_s
        while await call.wait() and started - call.left_s < HAND_OVER_S:
            answer = await call.pd.ask("leader")
            if leader_from(answer.body) is not None and not await _leads(call, target):
                break
        else:
            why = f"{target.name} still leads after {HAND_OVER_S:g} s, so it was not restarted."
            raise RefusedCall(why, _TIMEOUT)
    await start()
    while await call.wait():
        answer = await call.pd.at(target, "leader", itself=True)
        leader = leader_from(answer.body) if answer.ok else None
        if leader is not None:
            first = "transferred its leadership and was restarted" if leads else "was restarted"
            sentence = f"{target.name} {first}; {leader.name} leads."
            return Done(sentence, {"changed": True, "handed_over": leads, "leader": leader.name})
    why = f"{target.name} was restarted, but follows no leader after {call.job.timeout_s:g} s."
    raise RefusedCall(why, _TIMEOUT)


async def _leads(call: PdCall, target: Target) -> bool:
    """Whether it is itself the leader that it names."""
    named = leader_from((await call.pd.at(target, "leader", itself=True)).body)
    if named is None:
        return False
    own = {f"{target.host}:{target.port}", *target.endpoints}
    return named.name == target.name or bool(own & set(named.addresses))
