"""What is seen of the cluster as a whole, from what was seen of its members. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operator_protocols.domain.observation import Seen, Value
from operator_sre.subjects.etcd.members import CLUSTER

__all__ = ["whole_of"]

# What is the same at every member but for fragments: that of the fullest one counts for all.
_SPACE = (
    "db_bytes",
    "db_in_use_bytes",
    "quota_bytes",
    "quota_ratio",
    "near_quota",
    "in_use_ratio",
    "mostly_free",
    "mostly_history",
    "history_weighs",
    "history_ratio",
    "revisions_kept",
)
_SHARED = ("quorum", "voters", "voters_up", "healthy_voters", "quorum_lost_s")


def whole_of(name: str, members: Sequence[Seen], *, refused: str | None) -> Seen:
    """The cluster as one thing that is looked at; `refused` says why nobody is let in.

    `refused` is "" where somebody is, None where nobody could be asked.
    """
    up = [one for one in members if one.readings.get("reachable")]
    readings: dict[str, Value] = {"kind": CLUSTER, "members_up": len(up)}
    if members:
        readings |= {key: members[0].readings.get(key) for key in _SHARED}
    if refused is not None:
        readings |= {"let_in": not refused, "refusal": refused}
    if up:
        readings |= _alarms(up) | _space(up) | _lead(up)
    return Seen(name, readings)


def _alarms(up: Sequence[Seen]) -> dict[str, Value]:
    told = {one.target: one.readings.get("alarms") for one in up}
    raised = {name: text for name, text in told.items() if isinstance(text, str)}
    if not raised:
        return {}
    kinds = {kind for text in raised.values() for kind in text.split(",") if kind}
    return {
        "alarms": ",".join(sorted(kinds)),
        "alarms_by": ", ".join(sorted(name for name, text in raised.items() if text)),
    }


def _space(up: Sequence[Seen]) -> dict[str, Value]:
    fullest = max(up, key=lambda one: _number(one.readings, "quota_ratio"))
    found = {key: fullest.readings[key] for key in _SPACE if key in fullest.readings}
    return {**found, "fullest": fullest.target}


def _lead(up: Sequence[Seen]) -> dict[str, Value]:
    leader = next((one for one in up if one.readings.get("is_leader")), None)
    if leader is None:
        return {"leader": None}
    return {"leader": leader.target, "successor": leader.readings.get("successor")}


def _number(readings: Mapping[str, Value], name: str) -> float:
    value = readings.get(name)
    return float(value) if isinstance(value, int | float) else -1.0
