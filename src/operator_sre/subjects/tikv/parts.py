"""What is seen of PDs and of a Prometheus, and of every part compared with the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.tikv.clocks import differing, skews
from operator_sre.subjects.tikv.kinds import PD, STORE, target_at
from operator_sre.subjects.tikv.look import Leading, PdGlimpse
from operator_sre.subjects.tikv.state import Members

__all__ = ["compared", "leads", "needed", "pd_readings", "pds_together", "with_quorum"]


def leads(found: Leading) -> bool:
    """There is a leader, and it was reached, or somebody who follows it."""
    if found.leader is None:
        return False
    glimpse = found.glimpses.get(found.leader.name)
    return found.stores is not None or (glimpse is not None and glimpse.up)


def pd_readings(
    part: Target, glimpse: PdGlimpse | None, leader: str, members: Members | None
) -> dict[str, Value]:
    """What one PD said, and what the others say of it."""
    if glimpse is None or glimpse.answer.unasked:
        return {}
    readings: dict[str, Value] = {"reachable": glimpse.up, "error": glimpse.answer.error}
    if glimpse.answer.strange:
        readings["error"] = f"what answers there is not PD: {glimpse.answer.error}"
    if glimpse.up:
        follows = glimpse.leader.name if glimpse.leader is not None else ""
        readings |= {
            "leads": bool(follows) and part.name == leader,
            "follows": follows,
            "has_leader": bool(follows),
        }
    for member in members.members if members is not None else ():
        if target_at([part], [member.name], member.addresses):
            readings["version"] = member.version
    return readings


def pds_together(seen: Sequence[Seen], found: Leading, leader: str) -> dict[str, Value]:
    """What all PDs are together: how many answer, whether they are enough, who leads."""
    pds = [one for one in seen if one.readings.get("kind") == PD]
    asked = [one for one in pds if "reachable" in one.readings]
    up = [one for one in asked if one.readings["reachable"]]
    readings: dict[str, Value] = {
        "pds": len(pds),
        "pds_up": len(up),
        "pd_leader": leader if leads(found) else "",
    }
    if up:
        readings["has_leader"] = leads(found) or any(one.readings["has_leader"] for one in up)
    if asked and len(asked) == len(pds):
        readings["quorum"] = len(up) * 2 > len(pds)
    return readings


def with_quorum(seen: Sequence[Seen], quorum: Value) -> list[Seen]:
    """The same, and of each PD whether enough of them are there."""
    return [
        replace(one, readings={**one.readings, "quorum": quorum})
        if one.readings.get("kind") == PD
        else one
        for one in seen
    ]


def compared(seen: Sequence[Seen], offsets: Mapping[str, float], skew_s_max: float) -> list[Seen]:
    """The same, and of each whether its clock and its version are those of the others."""
    off = skews(offsets)
    versions: dict[str, dict[str, str]] = {PD: {}, STORE: {}}
    for one in seen:
        kind, version = one.readings.get("kind"), one.readings.get("version")
        left = one.readings.get("state") == "Tombstone"
        if isinstance(version, str) and version and kind in versions and not left:
            versions[str(kind)][one.target] = version
    other = {**differing(versions[PD]), **differing(versions[STORE])}
    found = []
    for one in seen:
        added: dict[str, Value] = {}
        if one.target in off:
            added["clock_skew_s"] = off[one.target]
            added["clock_skewed"] = abs(off[one.target]) > skew_s_max
        if one.readings.get("version"):
            added["version_differs"] = one.target in other
            added["version_most"] = other.get(one.target) or ""
        found.append(replace(one, readings={**one.readings, **added}))
    return found


def needed(seen: Sequence[Seen]) -> frozenset[str]:
    """Parts without which the cluster is not what it should be: gone, emptied, or cut off."""
    found = set()
    for one in seen:
        kind, state = one.readings.get("kind"), one.readings.get("state")
        gone = kind in (PD, STORE) and one.readings.get("reachable") is False
        silent = kind == STORE and state in ("Disconnected", "Down")
        if gone or silent or one.readings.get("evicting") or one.readings.get("cut_from_peers"):
            found.add(one.target)
    return frozenset(found)
