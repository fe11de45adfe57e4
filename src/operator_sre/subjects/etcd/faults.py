"""Ways to hurt an etcd cluster, each with how to mend it and who can tell that it is over."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from operator_protocols.errors import OperatorError, RigError
from operator_protocols.faults import (
    cut_off,
    filled,
    flooded,
    killed,
    limited,
    occupied,
    paused,
    slowed,
)
from operator_protocols.ports import Ability, Fault, Job, RightEnd, Scene
from operator_sre.subjects.etcd.faults_inside import CONFIGURATION_DRIFT, WRONG_CREDENTIAL
from operator_sre.subjects.etcd.faults_space import COMPACTION_LAG, QUOTA_REACHED
from operator_sre.subjects.etcd.members import KIND
from operator_sre.subjects.etcd.place import data_dir
from operator_sre.subjects.etcd.tools import etcd_tools
from operator_sre.subjects.etcd.witness import Witness, settings_of, witness

__all__ = ["FAULTS"]

FAR_S = 0.15
SLOW_S = 0.4
FILES_MAX = 16
MEMORY_BYTES = 64 << 20
HEAVY, HEAVY_BYTES = 8, 6 << 20
SETTLE_S = 0.3
DAMAGE_BYTES = 64 * 1024
TRIES_MAX = 20


def _leading(fault: Fault, *, leads: bool) -> Fault:
    """The same fault at a target that leads, or does not, whoever led before."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        async with witness(scene) as sees:
            if leads:
                await sees.lead(scene.target)
            elif (leader := await sees.leader()) is not None and leader.name == scene.target.name:
                await sees.lead(next(one for one in sees.members if one.name != leader.name))
        return await fault.inject(scene)

    return replace(fault, inject=inject)


def _pressed(fault: Fault) -> Fault:
    """The same fault, and requests that need what the target cannot have any more."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        notes = await fault.inject(scene)
        async with witness(scene) as sees:
            for _ in range(TRIES_MAX):
                await asyncio.gather(*(_heavy(sees, scene) for _ in range(HEAVY)))
                if Ability.KILL in scene.rig.hurt(scene.target.name):
                    break
        return notes

    return replace(fault, inject=inject)


async def _heavy(sees: Witness, scene: Scene) -> None:
    # It is read and unpacked before it is refused for its size, so that nothing is written.
    await sees.put(scene.target, "shop/photo", bytes(HEAVY_BYTES))


async def _damage(scene: Scene) -> Mapping[str, str]:
    """Zeros in the middle of what it needs to start, while it does not run."""
    await scene.rig.kill(scene.target.name)
    await asyncio.to_thread(_spoil, _data(scene))
    with contextlib.suppress(OperatorError):  # it does not come up, and its log says why
        await scene.rig.restart(scene.target.name)
    return {}


def _spoil(data: Path) -> None:
    database = data / "member" / "snap" / "db"
    for file in (database, *sorted((data / "member" / "wal").glob("*.wal"))[-1:]):
        with file.open("r+b") as content:
            content.write(secrets.token_bytes(DAMAGE_BYTES))


async def _diverge(scene: Scene) -> Mapping[str, str]:
    """Another value of one key, in the file of one member."""
    mark, other = secrets.token_hex(32), secrets.token_hex(32)
    file = _data(scene) / "member" / "snap" / "db"
    async with witness(scene) as sees:
        if problem := await sees.put(scene.target, "shop/price", mark.encode()):
            raise RigError(f"The cluster takes no writes: {problem}.")
    for _ in range(TRIES_MAX):  # until it has written it down
        if mark.encode() in await asyncio.to_thread(file.read_bytes):
            break
        await asyncio.sleep(SETTLE_S)
    await scene.rig.kill(scene.target.name)
    await asyncio.to_thread(_exchange, file, mark.encode(), other.encode())
    await scene.rig.restart(scene.target.name)
    return {}


def _exchange(file: Path, mark: bytes, other: bytes) -> None:
    content = file.read_bytes()
    if mark not in content:
        raise RigError("The value is not in the file of the member.")
    with file.open("r+b") as place:
        place.write(content.replace(mark, other))


async def _rejoin(scene: Scene) -> None:
    """Let it join anew, unless somebody did."""
    if await _same(scene):
        replace_member = next(
            tool for tool in etcd_tools(settings_of(scene)) if tool.spec.name == "replace_member"
        )
        result = await replace_member.call({"target": scene.target.name}, Job())
        if not result.ok:
            raise RigError(f"{scene.target.name} cannot be replaced: {result.stderr}")


async def _same(scene: Scene) -> str:
    """All members answer and hold the same keys."""
    if Ability.KILL in scene.rig.hurt(scene.target.name):
        return f"{scene.target.name} does not run"
    async with witness(scene) as sees:
        if silent := await sees.silent():
            return silent
        hashes = await sees.hashes()
    return "" if len(set(hashes.values())) == 1 else f"{hashes} are not the same"


async def _led_from_near(scene: Scene) -> str:
    """Whoever leads is near to the others: nobody inside can mend a wire, and nobody has to."""
    async with witness(scene) as sees:
        leader = await sees.leader()
    if leader is None:
        return "nobody leads"
    far = leader.name == scene.target.name and Ability.SLOW in scene.rig.hurt(leader.name)
    return f"{leader.name} leads from afar" if far else ""


def _data(scene: Scene) -> Path:
    place = data_dir(scene.target)
    if place is None:
        raise RigError(f"The data of {scene.target.name} is not within reach.")
    return place


DATA_DAMAGED = Fault(
    name="data_damaged",
    sentence="The data directory of one member is damaged, and it does not start.",
    kind=KIND,
    breaks=("member_down",),
    inject=_damage,
    heal=_rejoin,
    oracle=_same,
)
MEMBER_DIVERGED = Fault(
    name="member_diverged",
    sentence="One member holds another value of one key than the rest.",
    kind=KIND,
    breaks=("members_agree",),
    inject=_diverge,
    heal=_rejoin,
    oracle=_same,
)

LEADER_FAR = replace(
    _leading(
        slowed(
            "leader_far",
            KIND,
            breaks=("slow_write", "slow_read"),
            delay_s=FAR_S,
            others=(KIND,),
            end=RightEnd.MITIGATED,
        ),
        leads=True,
    ),
    oracle=_led_from_near,
)

FAULTS: tuple[Fault, ...] = (
    killed("node_kill", KIND, breaks=("member_down",)),
    _leading(killed("leader_down", KIND, breaks=("member_down",)), leads=True),
    paused("node_pause", KIND, breaks=("member_down",)),
    replace(
        killed("quorum_lost", KIND, breaks=("quorum_lost", "member_down"), count=2),
        end=RightEnd.ESCALATED,
    ),
    _leading(slowed("latency", KIND, breaks=("slow_read",), delay_s=SLOW_S), leads=False),
    LEADER_FAR,
    cut_off(
        "network_partition",
        KIND,
        breaks=("peer_unreachable", "no_leader", "raft_lag"),
        others=(KIND,),
    ),
    cut_off("network_isolation", KIND, breaks=("member_down",)),
    replace(
        filled("disk_pressure", KIND, breaks=("disk_full", "member_down")), end=RightEnd.ESCALATED
    ),
    _pressed(limited("memory_limit", KIND, breaks=("member_down",), memory_bytes=MEMORY_BYTES)),
    limited("file_descriptors", KIND, breaks=("member_down",), files=FILES_MAX),
    # Whose process holds the port, and whether it may go, is known to people only.
    replace(occupied("port_taken", KIND, breaks=("member_down",)), end=RightEnd.ESCALATED),
    flooded("log_flood", KIND, breaks=("log_oversized",)),
    QUOTA_REACHED,
    COMPACTION_LAG,
    DATA_DAMAGED,
    MEMBER_DIVERGED,
    CONFIGURATION_DRIFT,
    WRONG_CREDENTIAL,
)
