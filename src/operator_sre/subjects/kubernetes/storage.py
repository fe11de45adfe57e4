"""Claims without a volume, and which demand no volume or storage class meets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from operator_sre.subjects.kubernetes.snapshot import Claim, Snapshot, Volume
from operator_sre.subjects.kubernetes.suspicion import (
    CERTAIN,
    LIKELY,
    POSSIBLE,
    Suspicion,
    fresh_events,
)

__all__ = ["find_storage"]

_NO_CLASS = re.compile(r'storageclass\S* "?([\w.-]+)"? not found', re.IGNORECASE)


def find_storage(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Why claims are not bound, blamed on the workloads that use them."""
    users: dict[str, list[str]] = {}
    for workload in snapshot.workloads:
        for name in workload.spec.claims:
            users.setdefault(name, []).append(workload.name)
    for name, workloads in users.items():
        if snapshot.lacks("persistentvolumeclaim", name):
            why = f"claim {name} does not exist"
            yield Suspicion.of("claim_missing", workloads[0], LIKELY, why, explains=workloads)
    for claim in snapshot.claims:
        if claim.phase in ("Bound", "") or claim.volume:
            continue
        affected = users.get(claim.name, [])
        report = " ".join(
            event.message for event in fresh_events(snapshot, "persistentvolumeclaim", claim.name)
        )
        cause, why = _judge(snapshot, claim, report)
        target = affected[0] if affected else claim.name
        weight = POSSIBLE if cause == "claim_pending" else CERTAIN
        state = f"claim {claim.name} is {claim.phase}"
        yield Suspicion.of(cause, target, weight, why, state, report, explains=affected)


def _judge(snapshot: Snapshot, claim: Claim, report: str) -> tuple[str, str]:
    """The demand that fails: at the volume that misses the fewest demands."""
    demand = claim.storage_class
    # Volumes that were made by hand need no object for their class.
    offered = demand in {volume.storage_class for volume in snapshot.volumes}
    if not offered and (match := _NO_CLASS.search(report)):
        return "claim_storage_class", f"storage class {match.group(1)} does not exist"
    if demand and not offered and snapshot.lacks("storageclass", demand):
        return "claim_storage_class", f"storage class {demand} does not exist"
    key = f"{claim.namespace}/{claim.name}"
    free = [volume for volume in snapshot.volumes if volume.claim in ("", key)]
    rows = sorted((_unmet(claim, volume) for volume in free), key=len)
    if rows and rows[0]:
        return rows[0][0]
    if snapshot.volumes and not free:
        return "volume_bound_elsewhere", "every volume is bound to another claim"
    return "claim_pending", f"no volume is bound to claim {claim.name}"


def _unmet(claim: Claim, volume: Volume) -> list[tuple[str, str]]:
    """The demands of a claim that a volume does not meet."""
    found = []
    if claim.storage_class is not None and claim.storage_class != volume.storage_class:
        why = f"the claim asks for class {claim.storage_class!r}, {volume.name} has"
        found.append(("claim_storage_class", f"{why} {volume.storage_class!r}"))
    if claim.modes and volume.modes and not set(claim.modes) <= set(volume.modes):
        why = f"the claim asks for {', '.join(claim.modes)}, {volume.name} offers"
        found.append(("claim_access_mode", f"{why} {', '.join(volume.modes)}"))
    if not claim.selector.items() <= volume.labels.items():
        labels = ", ".join(f"{key}={value}" for key, value in claim.selector.items())
        found.append(("claim_selector", f"{volume.name} lacks the labels {labels}"))
    if claim.size and volume.size and claim.size > volume.size:
        sizes = f"{claim.size / 1024**3:g} GiB, {volume.name} has {volume.size / 1024**3:g} GiB"
        found.append(("claim_capacity", f"the claim asks for {sizes}"))
    return found
