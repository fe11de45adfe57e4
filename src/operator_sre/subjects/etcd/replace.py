"""Replacing a member whose data cannot be used: reversible steps first, and never the quorum."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.tool import Parameter, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Kill
from operator_sre.subjects.etcd.cluster import Cluster, agreement
from operator_sre.subjects.etcd.deed import Deed, Done, Refusal
from operator_sre.subjects.etcd.members import Member, members_from
from operator_sre.subjects.etcd.place import config_file, data_dir, setting, with_setting
from operator_sre.subjects.etcd.probes import hashes_of

__all__ = ["REPLACE_MEMBER", "replace_member"]

REPLACE_MEMBER = ToolSpec(
    name="replace_member",
    sentence="Remove one broken member with its data, and let it join again with everybody's.",
    parameters=(Parameter("target", "the member", infers="target"),),
    source=ToolSource.SUBJECT,
    risk=Risk.HIGH,
    changes=True,
    expected="That it has a new id and the same keys as the others; its own data is gone.",
    verify="member_down and members_agree hold at it.",
    timeout_s=180.0,
    ends=("data_unusable", "data_differs"),
)


async def replace_member(deed: Deed) -> Done:
    """Restart it first; only when that does not help, remove it, wipe it and add it again.

    Refused unless the others are a quorum without it and it is really broken. Called again after
    it was cut off half-way, it goes on from there.
    """
    name = deed.text("target")
    target = deed.glimpse(name).target
    await deed.need_quorum()
    if not deed.survives_without(name):
        why = f"Without {name} the cluster would have no quorum, so it is not removed."
        raise Refusal(why, FailureCategory.RESOURCE)
    life, config, data = deed.settings.life, config_file(target), data_dir(target)
    if life is None or config is None or data is None:
        raise Refusal(
            f"{name} cannot be replaced from here: its process, its settings and its data have to"
            " be within reach. Remove it by `member remove`, wipe it, and add it again by hand.",
            FailureCategory.PERMISSION,
        )
    if healed := await _restart_helps(deed, name, life):
        return healed
    await _hand_over(deed, name)
    await _stop(life, name)
    url = setting(config.read_text(encoding="utf-8"), "initial-advertise-peer-urls")
    await _remove(deed, name, url)
    await asyncio.to_thread(shutil.rmtree, data, ignore_errors=True)
    if data.exists():
        raise Refusal(f"The data of {name} in {str(data)!r} cannot be removed.")
    members = await _add(deed, url)
    _join(config, name, url, members)
    await life.restart(name)
    await deed.until(lambda cluster: _caught_up(deed, cluster, name))
    return Done(
        f"{name} was removed, wiped and added again; it holds the same keys as the others.",
        {"changed": True, "replaced": True},
    )


async def _restart_helps(deed: Deed, name: str, life: Kill) -> Done | None:
    """What is broken only because it does not run needs no new data."""
    if not deed.glimpse(name).up:
        if _is_listed(deed, name):
            try:
                await life.restart(name)
            except OperatorError:
                return None
        else:
            return None
    cluster = await deed.again()
    agrees = agreement(await hashes_of(deed.etcd, cluster))
    if agrees.get(name) is False and sum(agrees.values()) >= 2:
        return None
    if name not in agrees or not agrees[name]:
        raise Refusal(
            f"{name} answers, and nobody can tell that its keys are wrong; it is left as it is."
        )
    if deed.glimpse(name).up:
        raise Refusal(f"{name} answers and holds the same keys as the others; it is not broken.")
    told = f"{name} was started again and holds the same keys as the others; it keeps its data."
    return Done(told, {"changed": True, "replaced": False})


def _is_listed(deed: Deed, name: str) -> bool:
    return deed.cluster.member_of(deed.glimpse(name).target) is not None


async def _hand_over(deed: Deed, name: str) -> None:
    """One that leads lets another lead before it goes."""
    cluster = await deed.again()
    leader, heir = cluster.leader, cluster.successor
    if leader is None or leader.target.name != name or heir is None:
        return
    await deed.ask(leader, "maintenance/transfer-leadership", {"targetID": str(heir.id)})

    async def follows(now: Cluster) -> bool:
        return now.leader is not None and now.leader.target.name != name

    await deed.until(follows)


async def _stop(life: Kill, name: str) -> None:
    try:
        await life.kill(name)
    except OperatorError:
        return  # it did not run


async def _remove(deed: Deed, name: str, url: str) -> None:
    cluster = await deed.again()
    others = [one for one in cluster.up if one.target.name != name and one.leader]
    entry = _entry(cluster.members, url)
    if entry is None:
        return
    if not others:
        raise Refusal(f"Nobody is left who could remove {name}.", FailureCategory.RESOURCE)
    await deed.ask_settled(others[0], "cluster/member/remove", {"ID": str(entry.id)})


async def _add(deed: Deed, url: str) -> tuple[Member, ...]:
    """Add it at its old address; the member list after that."""

    async def has_leader(cluster: Cluster) -> bool:
        return cluster.speaker is not None

    cluster = await deed.until(has_leader)
    if _entry(cluster.members, url) is not None or cluster.speaker is None:
        return cluster.members
    answer = await deed.ask_settled(cluster.speaker, "cluster/member/add", {"peerURLs": [url]})
    return members_from(answer.body)


def _join(config: Path, name: str, url: str, members: tuple[Member, ...]) -> None:
    """Its settings say that it comes into a cluster that is there."""
    known = [
        f"{name if url in member.peer_urls else member.name}={peer}"
        for member in members
        for peer in member.peer_urls
    ]
    text = with_setting(config.read_text(encoding="utf-8"), "initial-cluster", ",".join(known))
    draft = config.with_name(f".{config.name}.new")
    draft.write_text(with_setting(text, "initial-cluster-state", "existing"), encoding="utf-8")
    shutil.copymode(config, draft)
    draft.replace(config)


async def _caught_up(deed: Deed, cluster: Cluster, name: str) -> bool:
    """It answers, follows, and holds what the others hold."""
    up = any(one.target.name == name and one.leader for one in cluster.up)
    return up and agreement(await hashes_of(deed.etcd, cluster)).get(name) is True


def _entry(members: tuple[Member, ...], url: str) -> Member | None:
    return next((member for member in members if url in member.peer_urls), None)
