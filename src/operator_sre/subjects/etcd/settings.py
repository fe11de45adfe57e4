"""Settings that all members of a cluster have to share, and who has others. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from operator_protocols.domain.observation import Value

__all__ = ["SHARED", "Differing", "differing", "reading_of", "shared_in"]

# A member with another heartbeat calls elections against a leader that is well; one with another
# quota or another compaction refuses what the others take, or keeps what they forget.
SHARED = (
    "auto-compaction-mode",
    "auto-compaction-retention",
    "election-timeout",
    "heartbeat-interval",
    "max-request-bytes",
    "quota-backend-bytes",
    "snapshot-count",
)
DEFAULT = ""  # its file does not name it
Differing = dict[str, tuple[str, str | None]]


def reading_of(setting: str) -> str:
    """The name of the reading that tells a setting."""
    return f"setting_{setting.replace('-', '_')}"


def shared_in(readings: Mapping[str, Value]) -> dict[str, str]:
    """What a member has of them, by its readings; what it says itself counts more than its file."""
    found = {name: str(readings[key]) for name in SHARED if (key := reading_of(name)) in readings}
    if quota := readings.get("quota_bytes"):
        found["quota-backend-bytes"] = str(quota)
    return found


def differing(settings: Mapping[str, Mapping[str, str]]) -> dict[str, Differing]:
    """For each member what it has of a setting, and what most others have, where that is not it.

    Where no value has a majority nobody can tell who is right, and all of them differ.
    """
    found: dict[str, Differing] = {name: {} for name in settings}
    for setting in SHARED:
        known = {name: own[setting] for name, own in settings.items() if setting in own}
        if len(known) < 2:
            continue
        value, count = Counter(known.values()).most_common(1)[0]
        most = value if count * 2 > len(known) else None
        for name, own in known.items():
            if own != most:
                found[name][setting] = (own, most)
    return found
