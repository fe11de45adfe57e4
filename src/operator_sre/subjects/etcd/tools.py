"""What can be done to an etcd cluster through its own API."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import FailureCategory
from operator_protocols.errors import OperatorError
from operator_protocols.kit.knowledge import read_knowledge
from operator_protocols.kit.machine import replace_text
from operator_protocols.kit.tool import Act, Call, Done, RefusedCall, TypedTool, rotate_log_of
from operator_protocols.ports import Kill, SubjectSettings, Tool
from operator_sre.subjects.etcd.call import ClusterCall, observe_cluster
from operator_sre.subjects.etcd.client import Etcd
from operator_sre.subjects.etcd.cluster import Cluster, agreement
from operator_sre.subjects.etcd.configuration import (
    SHARED,
    Differing,
    config_file,
    data_dir,
    differing,
    line_of,
    local_readings,
    setting,
    shared_in,
    with_line,
    with_setting,
)
from operator_sre.subjects.etcd.invariants import options_from
from operator_sre.subjects.etcd.members import Member, alarms_from, members_from
from operator_sre.subjects.etcd.probes import hashes_of

__all__ = ["KNOWLEDGE", "etcd_tools"]

KNOWLEDGE = read_knowledge(Path(__file__).parent)
MB = 1 << 20


def etcd_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All of them, for one cluster."""

    def bind(act: Callable[[ClusterCall], Awaitable[Done]]) -> Act:
        async def run(call: Call) -> Done:
            etcd = Etcd(settings)
            options = options_from(settings.options)
            cluster = await observe_cluster(etcd, settings)
            return await act(
                ClusterCall(call.arguments, call.job, settings, options, etcd, cluster)
            )

        return run

    acts = (
        *(defragment, compact, disarm_alarm, move_leader, free_space),
        *(align_settings, replace_member, rotate_log),
    )
    return tuple(TypedTool(KNOWLEDGE.tools[act.__name__], bind(act)) for act in acts)


async def defragment(call: ClusterCall) -> Done:
    """One member only: it answers no request meanwhile."""
    member = call.up(call.text("target"))
    why = f"The cluster would have no quorum while {member.target.name} is defragmented."
    await call.need_quorum(without=member.target.name, why=why)
    before = member.number("dbSize")
    await call.ask(member, "maintenance/defragment", {})
    again = await call.observe()
    after = next((now.number("dbSize") for now in again.up if now.id == member.id), before)
    sentence = f"The file of {member.target.name} went from {_mb(before)} to {_mb(after)}."
    return Done(sentence, {"before_bytes": before, "after_bytes": after})


async def compact(call: ClusterCall) -> Done:
    """Everything older than the last revisions, in the files of all members."""
    await call.need_quorum()
    compacted = [member.metrics.numbers.get("compact_revision", 0) for member in call.cluster.up]
    before = max(compacted, default=0)
    revision = call.speaker.revision - call.integer("keep")
    if revision <= max(before, 1):
        sentence = f"Nothing to compact: every revision before {before} is already compacted."
        return Done(sentence, {"changed": False, "compact_revision": before})
    # Physical: it is answered when the pages are free, not when it is agreed on.
    await call.ask(call.speaker, "kv/compaction", {"revision": str(revision), "physical": True})
    sentence = f"Compacted every revision before {revision} (previously {before})."
    return Done(sentence, {"changed": True, "compact_revision": revision})


async def disarm_alarm(call: ClusterCall) -> Done:
    """Only where the reason is gone; else the next write would raise it again."""
    await call.need_quorum()
    only = call.member(call.text("member")).id if call.text("member") else 0
    alarms = {
        (id_, kind)
        for member in call.cluster.up
        for id_, kind in alarms_from(member.status.body.get("errors"))
        if not only or id_ == only
    }
    kinds = {kind for _, kind in alarms}
    if "CORRUPT" in kinds:
        agrees = agreement(await hashes_of(call.etcd, call.cluster))
        if len(agrees) < call.cluster.voters or not all(agrees.values()):
            raise RefusedCall(
                "The members do not hold the same keys. Replace the member that differs first."
            )
    for member in call.cluster.up if "NOSPACE" in kinds else ():
        size = member.number("dbSize")
        quota = member.metrics.numbers.get("quota_bytes", call.options.quota_bytes)
        if quota and size > quota * call.options.quota_ratio_max:
            raise RefusedCall(
                f"The file of {member.target.name} still has {_mb(size)} of {_mb(quota)}, so the"
                " alarm would come back. Compact and defragment first."
            )
    for id_, kind in sorted(alarms):
        body = {"action": "DEACTIVATE", "memberID": str(id_), "alarm": kind}
        await call.ask(call.speaker, "maintenance/alarm", body)
    names = ", ".join(f"{kind} of {call.cluster.name_of(id_)}" for id_, kind in sorted(alarms))
    sentence = f"Disarmed: {names}." if names else "There was no alarm to disarm."
    return Done(sentence, {"changed": bool(alarms), "alarms": len(alarms)})


async def move_leader(call: ClusterCall) -> Done:
    """To a voter that answers and keeps up; the best of them when none is named."""
    await call.need_quorum()
    leader = call.cluster.leader
    if leader is None:
        raise RefusedCall(
            "The leader does not answer, and only the leader can transfer leadership."
        )
    heir = call.up(call.text("to")) if call.text("to") else call.cluster.successor
    if heir is None:
        raise RefusedCall("No other voter answers and follows the leader.")
    was = leader.target.name
    if heir is leader:
        return Done(f"{was} is already the leader.", {"changed": False, "leader": was})
    lag = leader.number("raftIndex") - heir.number("raftAppliedIndex")
    if heir.status.body.get("isLearner") or lag > call.options.lag_max:
        raise RefusedCall(
            f"{heir.target.name} cannot lead: it is {lag} entries behind, or a learner."
        )
    await call.ask(leader, "maintenance/transfer-leadership", {"targetID": str(heir.id)})

    async def leads(cluster: Cluster) -> bool:
        return cluster.leader is not None and cluster.leader.id == heir.id

    await call.until(leads)
    undo = Action("move_leader", {"to": was}, target=was, reasoning="move the leader back")
    sentence = f"{heir.target.name} is the leader now (previously {was})."
    return Done(sentence, {"changed": True, "leader": heir.target.name}, undo)


async def free_space(call: ClusterCall) -> Done:
    """The whole way out of a full database: forget, give back, and take the alarm back."""
    compacted = await compact(call)
    order = sorted(call.cluster.up, key=lambda member: member.leads)  # the leader last
    for member in order:
        await call.ask(member, "maintenance/defragment", {})
    fresh = replace(call, cluster=await call.observe(), arguments={})
    disarmed = await disarm_alarm(fresh)
    sizes = [member.number("dbSize") for member in fresh.cluster.up]
    sentence = f"{compacted.sentence} The largest file has {_mb(max(sizes))}. {disarmed.sentence}"
    return Done(sentence, {**compacted.data, **disarmed.data, "after_bytes": max(sizes)})


def _mb(size: int) -> str:
    return f"{size / MB:.1f} MB"


async def rotate_log(call: ClusterCall) -> Done:
    """A copy first, and only then less of it; a log on another machine is not ours to cut."""
    return await rotate_log_of(call.member(call.text("target")).target)


async def align_settings(call: ClusterCall) -> Done:
    """Only what most others agree on, and only while they are a quorum without it."""
    name = call.text("target")
    target = call.up(name).target
    why = f"Without {name} the cluster would lose its quorum, so it is not restarted."
    await call.need_quorum(without=name, why=why)
    file, life = config_file(target), call.settings.life
    if file is None or life is None:
        raise RefusedCall(
            f"{name} cannot be configured from here: its process and its file must be local.",
            FailureCategory.PERMISSION,
        )
    differs = await asyncio.to_thread(_find_differing, call.cluster, name)
    if not differs:
        return Done(f"{name} has the settings of the others.", {"changed": False})
    if lost := await asyncio.to_thread(_find_lost_lines, call.cluster, name, file):
        raise RefusedCall(
            f"{file.name} of {name} is incomplete: it does not set {', '.join(lost)}, which every"
            " other member sets. The running process still has these settings, and a restart would"
            " lose them. Restore the file first."
        )
    await asyncio.to_thread(_write_common, call.cluster, name, file, differs)
    await life.restart(name)

    async def agrees(cluster: Cluster) -> bool:
        follows = any(member.target.name == name and member.leader for member in cluster.up)
        return follows and not await asyncio.to_thread(_find_differing, cluster, name)

    await call.until(agrees)
    names = ", ".join(differs)
    sentence = f"{name} runs with the {names} of the others."
    return Done(sentence, {"changed": True, "settings": names})


def _find_differing(cluster: Cluster, name: str) -> Differing:
    settings = {}
    for member in cluster.up:
        quota = member.metrics.numbers.get("quota_bytes")
        local = local_readings(member.target, down=False)
        settings[member.target.name] = shared_in({**local, "quota_bytes": quota})
    return differing(settings).get(name, {})


def _find_lost_lines(cluster: Cluster, name: str, file: Path) -> list[str]:
    """The settings that the file of every other member has and this one lacks, without SHARED."""
    others = [config_file(member.target) for member in cluster.up if member.target.name != name]
    texts = [other.read_text(encoding="utf-8") for other in others if other is not None]
    named = [set(re.findall(r"^([A-Za-z][\w-]*):", text, re.MULTILINE)) for text in texts]
    common = set.intersection(*named) if named else set()
    text = file.read_text(encoding="utf-8")
    return sorted(each for each in common - set(SHARED) if not line_of(text, each))


def _write_common(cluster: Cluster, name: str, file: Path, differs: Differing) -> None:
    """Give a file the values of most others, as a reachable member writes them."""
    others = [config_file(member.target) for member in cluster.up if member.target.name != name]
    texts = [other.read_text(encoding="utf-8") for other in others if other is not None]
    text = file.read_text(encoding="utf-8")
    for wanted, (_, most) in differs.items():
        if most is None:
            raise RefusedCall(
                f"The members do not agree on {wanted}, so an engineer has to decide."
            )
        # How a value is written matters.
        lines = [line for each in texts if most and most in (line := line_of(each, wanted))]
        plain = f"{wanted}: {most}" if most else ""
        text = with_line(text, wanted, lines[0] if lines else plain)
    replace_text(file, text)


async def replace_member(call: ClusterCall) -> Done:
    """Restart it first; only when that does not help, remove it, wipe it and add it again.

    Refused unless the others are a quorum without it and it is really broken. Called again after
    it was cut off half-way, it goes on from there.
    """
    name = call.text("target")
    target = call.member(name).target
    why = f"Without {name} the cluster would lose its quorum, so it is not removed."
    await call.need_quorum(without=name, why=why)
    life, config, data = call.settings.life, config_file(target), data_dir(target)
    if life is None or config is None or data is None:
        raise RefusedCall(
            f"{name} cannot be replaced from here: its process, its settings and its data have to"
            " be within reach. Remove it by `member remove`, wipe it, and add it again by hand.",
            FailureCategory.PERMISSION,
        )
    if healed := await _try_restart(call, name, life):
        return healed
    await _hand_over(call, name)
    with contextlib.suppress(OperatorError):  # it did not run
        await life.kill(name)
    text = config.read_text(encoding="utf-8")
    url = setting(text, "initial-advertise-peer-urls")
    await _remove(call, name, url)
    await asyncio.to_thread(shutil.rmtree, data, ignore_errors=True)
    if data.exists():
        raise RefusedCall(f"The data of {name} in {str(data)!r} cannot be removed.")
    known = ",".join(
        f"{name if url in member.peer_urls else member.name}={peer}"
        for member in await _add(call, url)
        for peer in member.peer_urls
    )
    # Its settings say that it comes into a cluster that is there.
    joined = with_setting(
        with_setting(text, "initial-cluster", known), "initial-cluster-state", "existing"
    )
    replace_text(config, joined)
    await life.restart(name)

    async def caught_up(cluster: Cluster) -> bool:
        up = any(member.target.name == name and member.leader for member in cluster.up)
        return up and agreement(await hashes_of(call.etcd, cluster)).get(name) is True

    await call.until(caught_up)
    return Done(
        f"{name} was removed, wiped and added again; it holds the same keys as the others.",
        {"changed": True, "replaced": True},
    )


async def _try_restart(call: ClusterCall, name: str, life: Kill) -> Done | None:
    """What is broken only because it does not run needs no new data."""
    was_up = call.member(name).up
    if not was_up:
        target = call.member(name).target
        if call.cluster.member_of(target) is None:
            return None
        if local_readings(target, down=True).get("data_present") is not True:
            return None  # an empty member must not come back under its old name
        try:
            await life.restart(name)
        except OperatorError:
            return None
    agrees = agreement(await hashes_of(call.etcd, await call.observe()))
    if agrees.get(name) is False and sum(agrees.values()) >= 2:
        return None
    if not agrees.get(name):
        raise RefusedCall(
            f"{name} answers, and its keys could not be compared, so it is left as it is."
        )
    if was_up:
        raise RefusedCall(
            f"{name} answers and holds the same keys as the others; it is not broken."
        )
    sentence = f"{name} was restarted and holds the same keys as the others; it keeps its data."
    return Done(sentence, {"changed": True, "replaced": False})


async def _hand_over(call: ClusterCall, name: str) -> None:
    """A leader hands its leadership to another member before it stops."""
    cluster = await call.observe()
    leader, heir = cluster.leader, cluster.successor
    if leader is None or leader.target.name != name or heir is None:
        return
    await call.ask(leader, "maintenance/transfer-leadership", {"targetID": str(heir.id)})

    async def follows(now: Cluster) -> bool:
        return now.leader is not None and now.leader.target.name != name

    await call.until(follows)


async def _remove(call: ClusterCall, name: str, url: str) -> None:
    cluster = await call.observe()
    others = [member for member in cluster.up if member.target.name != name and member.leader]
    entry = next((member for member in cluster.members if url in member.peer_urls), None)
    if entry is None:
        return
    if not others:
        raise RefusedCall(f"No other member is left to remove {name}.", FailureCategory.RESOURCE)
    await call.ask_settled(others[0], "cluster/member/remove", {"ID": str(entry.id)})


async def _add(call: ClusterCall, url: str) -> tuple[Member, ...]:
    """Add it at its old address; the member list after that."""

    async def has_leader(cluster: Cluster) -> bool:
        return cluster.speaker is not None

    cluster = await call.until(has_leader)
    is_listed = any(url in member.peer_urls for member in cluster.members)
    if is_listed or cluster.speaker is None:
        return cluster.members
    answer = await call.ask_settled(cluster.speaker, "cluster/member/add", {"peerURLs": [url]})
    return members_from(answer.body)
