"""Ways to break an etcd cluster, each with its repair and an independent check of its end."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.target import Access
from operator_protocols.errors import OperatorError, RigError
from operator_protocols.faults import (
    cut_fault,
    fill_fault,
    flood_fault,
    kill_fault,
    limit_fault,
    occupy_fault,
    pause_fault,
    slow_fault,
)
from operator_protocols.ports import Ability, CorrectOutcome, Fault, Job, Scene
from operator_sre.subjects.etcd.client import Etcd
from operator_sre.subjects.etcd.configuration import config_file, data_dir, setting, with_setting
from operator_sre.subjects.etcd.members import KIND
from operator_sre.subjects.etcd.scenes import ClusterScene, settings_of
from operator_sre.subjects.etcd.tools import etcd_tools

__all__ = ["FAULTS"]

FAR_S = 0.15
SLOW_S = 0.4
FILES_MAX = 16
MEMORY_BYTES = 64 << 20
HEAVY, HEAVY_BYTES = 8, 6 << 20
POLL_S = 0.2
SETTLE_S = 0.3
DAMAGE_BYTES = 64 * 1024
TRIES_MAX = 20
LONG_TRIES_MAX = 50
SETTING = "quota-backend-bytes"
LESS = 0.75  # of the quota of the others: it refuses what they still take
ROOT = "root"
QUOTA_VALUE_BYTES = 48 * 1024
LAG_VALUE_BYTES = 24 * 1024  # many enough to be mostly history before they are near to the quota
LAG_RATIO = 0.4  # of the quota: more than history may take, less than is near to it
HISTORY_RATIO_MAX = 0.25
SIZE_RATIO_MAX = 0.8


def _with_leader(fault: Fault, *, leads: bool) -> Fault:
    """The same fault at a target that leads, or does not, regardless of the earlier leader."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        cluster = ClusterScene(scene)
        if leads:
            await cluster.lead(scene.target)
        elif (leader := await cluster.leader()) is not None and leader.name == scene.target.name:
            await cluster.lead(
                next(member for member in cluster.members if member.name != leader.name)
            )
        return await fault.inject(scene)

    return replace(fault, inject=inject)


def _with_load(fault: Fault) -> Fault:
    """The same fault, and requests that need what the target cannot have any more."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        notes = await fault.inject(scene)
        cluster = ClusterScene(scene)
        for _ in range(TRIES_MAX):
            # It is read and unpacked before it is refused for its size, so nothing is written.
            photo = bytes(HEAVY_BYTES)
            puts = (cluster.put(scene.target, "shop/photo", photo) for _ in range(HEAVY))
            await asyncio.gather(*puts)
            if Ability.KILL in scene.rig.damage(scene.target.name):
                break
        return notes

    return replace(fault, inject=inject)


def _leader_far() -> Fault:
    plain = slow_fault(
        "leader_far",
        KIND,
        breaks=("slow_write", "slow_read"),
        delay_s=FAR_S,
        others=(KIND,),
        end=CorrectOutcome.MITIGATED,
    )

    async def oracle(scene: Scene) -> str:
        # Nothing inside can repair a link, and nothing has to: the leader only has to be near.
        leader = await ClusterScene(scene).leader()
        if leader is None:
            return "there is no leader"
        far = leader.name == scene.target.name and Ability.SLOW in scene.rig.damage(leader.name)
        return f"{leader.name} leads from afar" if far else ""

    return replace(_with_leader(plain, leads=True), oracle=oracle)


def _data_faults() -> tuple[Fault, Fault]:
    """Those of what a member has on its disk: it cannot be used, or is not what the rest holds."""

    def data_of(scene: Scene) -> Path:
        place = data_dir(scene.target)
        if place is None:
            raise RigError(f"The data of {scene.target.name} is not within reach.")
        return place

    def spoil(data: Path) -> None:
        database = data / "member" / "snap" / "db"
        for file in (database, *sorted((data / "member" / "wal").glob("*.wal"))[-1:]):
            with file.open("r+b") as content:
                content.write(secrets.token_bytes(DAMAGE_BYTES))

    def exchange(file: Path, mark: bytes, other: bytes) -> None:
        content = file.read_bytes()
        if mark not in content:
            raise RigError("The value is not in the file of the member.")
        with file.open("r+b") as place:
            place.write(content.replace(mark, other))

    async def damage(scene: Scene) -> Mapping[str, str]:
        await scene.rig.kill(scene.target.name)
        await asyncio.to_thread(spoil, data_of(scene))
        with contextlib.suppress(OperatorError):  # it does not come up, and its log says why
            await scene.rig.restart(scene.target.name)
        return {}

    async def diverge(scene: Scene) -> Mapping[str, str]:
        mark, other = secrets.token_hex(32).encode(), secrets.token_hex(32).encode()
        file = data_of(scene) / "member" / "snap" / "db"
        if problem := await ClusterScene(scene).put(scene.target, "shop/price", mark):
            raise RigError(f"The cluster takes no writes: {problem}.")
        for _ in range(TRIES_MAX):  # until it has written it down
            if mark in await asyncio.to_thread(file.read_bytes):
                break
            await asyncio.sleep(SETTLE_S)
        await scene.rig.kill(scene.target.name)
        await asyncio.to_thread(exchange, file, mark, other)
        await scene.rig.restart(scene.target.name)
        return {}

    async def rejoin(scene: Scene) -> None:
        if not await differ(scene):
            return  # someone let it join again
        tools = {tool.spec.name: tool for tool in etcd_tools(settings_of(scene))}
        result = await tools["replace_member"].call({"target": scene.target.name}, Job())
        if not result.ok:
            raise RigError(f"{scene.target.name} cannot be replaced: {result.stderr}")

    async def differ(scene: Scene) -> str:
        if Ability.KILL in scene.rig.damage(scene.target.name):
            return f"{scene.target.name} does not run"
        cluster = ClusterScene(scene)
        if silent := await cluster.find_silent():
            return silent
        hashes = await cluster.hashes()
        return "" if len(set(hashes.values())) == 1 else f"{hashes} are not the same"

    damaged = "The data directory of one member is damaged, and it does not start."
    diverged = "One member has a different value for one key than the other members."
    return (
        Fault("data_damaged", damaged, KIND, ("member_down",), damage, rejoin, differ),
        Fault("member_diverged", diverged, KIND, ("members_agree",), diverge, rejoin, differ),
    )


def _configuration_drift() -> Fault:
    def read_config(scene: Scene) -> str:
        file = config_file(scene.target)
        return file.read_text(encoding="utf-8") if file is not None else ""

    async def restart_with(scene: Scene, value: str) -> None:
        file = config_file(scene.target)
        if file is None:
            raise RigError(f"{scene.target.name} has no file of settings.")
        text = with_setting(read_config(scene), SETTING, value)
        await asyncio.to_thread(file.write_text, text)
        with contextlib.suppress(OperatorError):  # another process may start it just now as well
            await scene.rig.restart(scene.target.name)
        for _ in range(LONG_TRIES_MAX):
            if str(await ClusterScene(scene).quota(scene.target)) == value:
                return
            await asyncio.sleep(POLL_S)
        raise RigError(f"{scene.target.name} does not run with {SETTING} {value}.")

    async def inject(scene: Scene) -> Mapping[str, str]:
        before = setting(read_config(scene), SETTING)
        await restart_with(scene, str(int(int(before) * LESS)))
        return {"before": before}

    async def heal(scene: Scene) -> None:
        if await oracle(scene):
            await restart_with(scene, scene.notes["before"])

    async def oracle(scene: Scene) -> str:
        cluster = ClusterScene(scene)
        quotas = {target.name: await cluster.quota(target) for target in cluster.members}
        if len(set(quotas.values())) != 1:
            return f"the quotas differ: {quotas}"
        written = setting(read_config(scene), SETTING)
        running = str(quotas[scene.target.name])
        return "" if written == running else f"its file says {written}, and it runs with {running}"

    sentence = "One member was started with a different quota than the others."
    breaks = ("settings_agree",)
    return Fault("configuration_drift", sentence, KIND, breaks, inject, heal, oracle)


def _wrong_credential() -> Fault:
    """Every member refuses a client that does not know the new password."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        password, cluster = secrets.token_hex(16), ClusterScene(scene)
        first = cluster.members[0]
        await cluster.do(first, "auth/user/add", name=ROOT, password=password)
        await cluster.do(first, "auth/role/add", name=ROOT)
        await cluster.do(first, "auth/user/grant", user=ROOT, role=ROOT)
        await cluster.do(first, "auth/enable")
        for _ in range(LONG_TRIES_MAX):
            if all([await cluster.put(member, "shop/open", b"yes") for member in cluster.members]):
                return {"said": password}
            await asyncio.sleep(POLL_S)
        raise RigError("The members still accept requests without a password.")

    async def heal(scene: Scene) -> None:
        if not await oracle(scene):
            return
        etcd = Etcd(replace(settings_of(scene), secret=lambda _: scene.notes["said"]))
        cluster = ClusterScene(scene)
        first = cluster.members[0]
        root = replace(first, access=Access(user=ROOT, password_file=ROOT))
        answer = await etcd.ask(root, "auth/disable")
        if not answer.ok:
            raise RigError(f"{first.name} goes on asking for a password: {answer.error}.")
        await cluster.do(first, "auth/user/delete", name=ROOT)
        await cluster.do(first, "auth/role/delete", role=ROOT)

    async def oracle(scene: Scene) -> str:
        cluster = ClusterScene(scene)
        if silent := await cluster.find_silent():
            return silent
        for target in cluster.members:
            if problem := await cluster.put(target, "shop/open", b"yes"):
                return f"{target.name} refuses a write: {problem}"
        return ""

    return Fault(
        "wrong_credential",
        "The cluster requires a user and password that its clients do not have.",
        *(KIND, ("not_let_in",), inject, heal, oracle, CorrectOutcome.ESCALATED),
    )


def _space_faults() -> tuple[Fault, Fault]:
    """Those of a database that is full of history."""

    async def reach_quota(scene: Scene) -> Mapping[str, str]:
        cluster = ClusterScene(scene)

        async def is_refused() -> bool:
            # A slow member refuses as well, so a refusal alone does not say that it is full.
            problem = await cluster.put(scene.target, "shop/stock/0", bytes(QUOTA_VALUE_BYTES))
            return bool(problem) and "NOSPACE" in await cluster.alarms()

        await cluster.write_until(is_refused, QUOTA_VALUE_BYTES)
        return {}

    async def keep_history(scene: Scene) -> Mapping[str, str]:
        cluster = ClusterScene(scene)

        async def takes_enough() -> bool:
            return await cluster.quota_ratio("dbSizeInUse") > LAG_RATIO

        await cluster.write_until(takes_enough, LAG_VALUE_BYTES)
        return {}

    async def free(scene: Scene) -> None:
        """Forget all history, give the space back, and take the alarms back."""
        cluster = ClusterScene(scene)
        first = cluster.members[0]
        await cluster.compact(first)
        for target in cluster.members:
            await cluster.do(target, "maintenance/defragment")
        found = await cluster.do(first, "maintenance/alarm", action="GET")
        for alarm in found.get("alarms", []):
            await cluster.do(first, "maintenance/alarm", **{**alarm, "action": "DEACTIVATE"})

    async def lacks_room(scene: Scene) -> str:
        cluster = ClusterScene(scene)
        if alarms := await cluster.alarms():
            return f"there are alarms: {', '.join(alarms)}"
        if (ratio := await cluster.quota_ratio("dbSize")) > SIZE_RATIO_MAX:
            return f"a file takes {ratio:.0%} of its quota"
        if problem := await cluster.put(scene.target, "shop/open", b"yes"):
            return f"a write is refused: {problem}"
        return ""

    async def keeps_much(scene: Scene) -> str:
        ratio = await ClusterScene(scene).quota_ratio("dbSizeInUse")
        return "" if ratio < HISTORY_RATIO_MAX else f"{ratio:.0%} of the quota are in use"

    used_up = "The history of a few keys has used up the database quota."
    kept = "The history of a few keys is not compacted and takes a large part of the quota."
    breaks = ("alarm_raised", "database_near_quota", "slow_write", "compaction_lag")
    return (
        Fault("quota_reached", used_up, KIND, breaks, reach_quota, free, lacks_room),
        Fault("compaction_lag", kept, KIND, ("compaction_lag",), keep_history, free, keeps_much),
    )


FAULTS: tuple[Fault, ...] = (
    kill_fault("node_kill", KIND, breaks=("member_down",)),
    _with_leader(kill_fault("leader_down", KIND, breaks=("member_down",)), leads=True),
    pause_fault("node_pause", KIND, breaks=("member_down",)),
    kill_fault(
        *("quorum_lost", KIND),
        breaks=("quorum_lost", "member_down"),
        count=2,
        end=CorrectOutcome.ESCALATED,
    ),
    _with_leader(slow_fault("latency", KIND, breaks=("slow_read",), delay_s=SLOW_S), leads=False),
    _leader_far(),
    cut_fault(
        *("network_partition", KIND),
        breaks=("peer_unreachable", "no_leader", "raft_lag"),
        others=(KIND,),
    ),
    cut_fault("network_isolation", KIND, breaks=("member_down",)),
    fill_fault(
        "disk_pressure", KIND, breaks=("disk_full", "member_down"), end=CorrectOutcome.ESCALATED
    ),
    _with_load(
        limit_fault("memory_limit", KIND, breaks=("member_down",), memory_bytes=MEMORY_BYTES)
    ),
    limit_fault("file_descriptors", KIND, breaks=("member_down",), files=FILES_MAX),
    # Whose process holds the port, and whether it may go, is known to people only.
    occupy_fault("port_taken", KIND, breaks=("member_down",), end=CorrectOutcome.ESCALATED),
    flood_fault("log_flood", KIND, breaks=("log_oversized",)),
    *_space_faults(),
    *_data_faults(),
    _configuration_drift(),
    _wrong_credential(),
)
