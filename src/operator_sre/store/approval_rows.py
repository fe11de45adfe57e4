"""What follows from an entry for approvals."""

from __future__ import annotations

from typing import Any

from operator_protocols.domain.entry import Entry

__all__ = ["answer_of"]


def answer_of(entry: Entry) -> dict[str, Any]:
    """What an answer adds to the request that it is about. Pure."""
    answer = {name: entry.payload[name] for name in ("state", "decided_by", "reason")}
    if "approvers" in entry.payload:
        answer["approvers"] = entry.payload["approvers"]
    return answer | {"decided_at": entry.at.isoformat()}
