"""What a cluster of a rig was given to keep: one key for each mark."""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Sequence

from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.etcd.client import Answer, Etcd, encoded
from operator_sre.subjects.etcd.members import KIND

__all__ = ["EtcdDepot"]

FIRST, END = "shop/receipt/", "shop/receipt0"  # the byte after the slash ends all that begin so


class EtcdDepot:
    """Writes to one member after another, and reads what a majority has agreed on."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._turns = itertools.count()

    async def put(self, mark: str) -> bool:
        """Write one key at the member whose turn it is."""
        members = [one for one in self._settings.targets() if one.kind == KIND]
        if not members:
            return False
        member = members[next(self._turns) % len(members)]
        async with Etcd(self._settings) as etcd:
            body = {"key": encoded(FIRST + mark), "value": encoded("paid")}
            answer = await etcd.ask(member, "kv/put", body)
        return answer.ok and "header" in answer.body

    async def gone(self, marks: Sequence[str]) -> frozenset[str] | None:
        """Those that no member has of all who answer a read that the majority confirms."""
        body = {"key": encoded(FIRST), "range_end": encoded(END), "keys_only": True}
        missing: frozenset[str] | None = None
        async with Etcd(self._settings) as etcd:
            for member in self._settings.targets():
                if member.kind != KIND:
                    continue
                answer = await etcd.ask(member, "kv/range", body)
                if answer.ok and "header" in answer.body:
                    missing = (frozenset(marks) if missing is None else missing) - _kept(answer)
                    if not missing:
                        break
        return missing


def _kept(answer: Answer) -> frozenset[str]:
    pairs = answer.body.get("kvs", [])
    keys = [one.get("key", "") for one in pairs if isinstance(one, dict)]
    return frozenset(_decoded(str(key)).removeprefix(FIRST) for key in keys)


def _decoded(key: str) -> str:
    try:
        return base64.b64decode(key).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
