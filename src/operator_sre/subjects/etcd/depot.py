"""What a cluster of a rig was given to keep: one key for each mark."""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
from collections.abc import Sequence

from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.etcd.client import Etcd, to_base64
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
