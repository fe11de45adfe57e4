"""What AWS says of instances, volumes and groups, as readings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.observation import Value

__all__ = [
    "GROUP",
    "INSTANCE",
    "KINDS",
    "VOLUME",
    "Region",
    "read_group",
    "read_instance",
    "read_volume",
]

INSTANCE = "instance"
VOLUME = "volume"
GROUP = "group"
KINDS = (INSTANCE, VOLUME, GROUP)
NAMES_MAX = 50
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Region:
    """What one check found, by id or name; what is not there does not exist."""

    account: str
    instances: Mapping[str, Json] = field(default_factory=dict)
    statuses: Mapping[str, Json] = field(default_factory=dict)
    volumes: Mapping[str, Json] = field(default_factory=dict)
    groups: Mapping[str, Json] = field(default_factory=dict)
    # The types of instances with disks of their own, which a stop empties.
    ephemeral: Mapping[str, bool] = field(default_factory=dict)
    # The group of each instance that belongs to one.
    members: Mapping[str, str] = field(default_factory=dict)


def read_instance(region: Region, id: str) -> dict[str, Value]:
    """State, status checks, and what a stop would lose."""
    found = region.instances.get(id)
    if found is None:
        return {"kind": INSTANCE, "id": id, "exists": False}
    status = region.statuses.get(id, {})
    kind = str(found.get("InstanceType", ""))
    group = region.members.get(id, "")
    ephemeral = region.ephemeral.get(kind)
    on_ebs = found.get("RootDeviceType") == "ebs"
    readings: dict[str, Value] = {
        "kind": INSTANCE,
        "id": id,
        "exists": True,
        "state": _inner(found, "State", "Name"),
        "state_reason": _inner(found, "StateReason", "Code"),
        "type": kind,
        "zone": _inner(found, "Placement", "AvailabilityZone"),
        "system_status": _inner(status, "SystemStatus", "Status"),
        "instance_status": _inner(status, "InstanceStatus", "Status"),
        "events": len(status.get("Events", ())),
        "group": group,
        "in_group": bool(group),
        "is_spot": found.get("InstanceLifecycle") == "spot",
        "keeps_data": None if ephemeral is None else on_ebs and not ephemeral,
        "volumes": ", ".join(
            str(each["Ebs"]["VolumeId"])
            for each in found.get("BlockDeviceMappings", ())[:NAMES_MAX]
            if each.get("Ebs", {}).get("VolumeId")
        ),
    }
    return readings


def read_volume(region: Region, id: str) -> dict[str, Value]:
    """State and size, and where it is attached."""
    found = region.volumes.get(id)
    if found is None:
        return {"kind": VOLUME, "id": id, "exists": False}
    attached = [
        str(each.get("InstanceId", ""))
        for each in found.get("Attachments", ())[:NAMES_MAX]
        if each.get("State") == "attached"
    ]
    return {
        "kind": VOLUME,
        "id": id,
        "exists": True,
        "state": str(found.get("State", "")),
        "size_gib": found.get("Size"),
        "attached_to": ", ".join(attached),
        "encrypted": bool(found.get("Encrypted")),
    }


def read_group(region: Region, name: str) -> dict[str, Value]:
    """How many instances it wants, and how many serve."""
    found = region.groups.get(name)
    if found is None:
        return {"kind": GROUP, "id": name, "exists": False}
    members: Sequence[Json] = found.get("Instances", ())
    suspended = [str(each.get("ProcessName", "")) for each in found.get("SuspendedProcesses", ())]
    return {
        "kind": GROUP,
        "id": name,
        "exists": True,
        "desired": found.get("DesiredCapacity"),
        "minimum": found.get("MinSize"),
        "maximum": found.get("MaxSize"),
        "in_service": _count(members),
        "unhealthy": sum(each.get("HealthStatus") != "Healthy" for each in members),
        "suspended": ", ".join(sorted(suspended)[:NAMES_MAX]),
        "is_suspended": bool(suspended),
    }


def _count(members: Iterable[Json]) -> int:
    return sum(
        each.get("LifecycleState") == "InService" and each.get("HealthStatus") == "Healthy"
        for each in members
    )


def _inner(found: Json, outer: str, inner: str) -> str:
    return str((found.get(outer) or {}).get(inner, ""))
