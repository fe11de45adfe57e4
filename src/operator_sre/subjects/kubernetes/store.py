"""The last state of every object of a cluster, kept small: the text of the API, without fields
that say who wrote what, and a few facts that every check needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

__all__ = ["Facts", "ObjectStore", "Stored", "decode"]

Object = dict[str, Any]
Key = tuple[str, str]

# Kept of each kind at most, so that a runaway controller does not fill our memory.
OBJECTS_MAX = 100_000
EVENTS_MAX = 5_000
_DROPPED_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration",)
# Their facts do not tell where a service leads.
_TOLD_BY_TEXT = frozenset({"endpointslice"})
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class Facts:
    """What a check needs without decoding an object.

    A `quiet` object can break no invariant, now or by the passing of time alone. `reason` is that
    of an event. `labels` are those of the pods of a workload, or that a service selects; `ports`
    are the numbers that containers declare or probes ask, or that a service sends to.
    """

    quiet: bool = False
    readings: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    node: str = ""
    requests: tuple[float, float] = (0.0, 0.0)
    reason: str = ""
    labels: frozenset[tuple[str, str]] = frozenset()
    ports: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Stored:
    """One object: its text, its facts and when it was received."""

    text: bytes
    facts: Facts
    received: float


def decode(stored: Stored) -> Object:
    """The object again."""
    return _decode(stored.text)


class ObjectStore:
    """The objects of one cluster by kind, namespace and name."""

    def __init__(self, read_facts: Callable[[str, Object], Facts]) -> None:
        self._read_facts = read_facts
        self._kinds: dict[str, dict[Key, Stored]] = {}
        self._loud: dict[str, dict[Key, Stored]] = {}
        self.listed: set[str] = set()

    def put(self, kind: str, item: Object, *, received: float) -> bool:
        """Keep the newest state of an object; whether a check could find something else now."""
        metadata = item.get("metadata") or {}
        key = (str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
        # Remove what no check reads and what must not be kept.
        item["kind"] = kind
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if annotations:
            for name in _DROPPED_ANNOTATIONS:
                annotations.pop(name, None)
        if kind == "configmap":
            # The keys and a digest tell a change and a missing key; the values stay where they are.
            content = {**(item.pop("data", None) or {}), **(item.pop("binaryData", None) or {})}
            item["keys"] = sorted(content)
            item["digest"] = hashlib.sha256(_encode(dict(sorted(content.items())))).hexdigest()[:12]
        elif kind == "node":
            (item.get("status") or {}).pop("images", None)
        known = self._kinds.setdefault(kind, {})
        limit = EVENTS_MAX if kind == "event" else OBJECTS_MAX
        if key not in known and len(known) >= limit:
            oldest = next(iter(known))
            known.pop(oldest)
            self._loud.get(kind, {}).pop(oldest, None)
        stored = Stored(_encode(item), self._read_facts(kind, item), received)
        before, known[key] = known.get(key), stored
        if stored.facts.quiet:
            self._loud.get(kind, {}).pop(key, None)
        else:
            self._loud.setdefault(kind, {})[key] = stored
        if kind == "event":
            return item.get("type") == "Warning"
        moved = before is None or before.facts != stored.facts
        return kind != "lease" and (moved or kind in _TOLD_BY_TEXT or not stored.facts.quiet)

    def drop(self, kind: str, item: Object) -> None:
        """Forget an object that was deleted."""
        metadata = item.get("metadata") or {}
        key = (str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
        self._kinds.get(kind, {}).pop(key, None)
        self._loud.get(kind, {}).pop(key, None)

    def keep_only(self, kind: str, keys: set[Key]) -> None:
        """After a new list: forget what is not in it."""
        for table in (self._kinds.get(kind, {}), self._loud.get(kind, {})):
            for key in [key for key in table if key not in keys]:
                del table[key]
        self.listed.add(kind)

    def expire(self, kind: str, before: float) -> None:
        """Forget what was received before this moment."""
        for table in (self._kinds.get(kind, {}), self._loud.get(kind, {})):
            for key in [key for key, stored in table.items() if stored.received < before]:
                del table[key]

    def of(self, kind: str) -> Mapping[Key, Stored]:
        """All objects of a kind."""
        return self._kinds.get(kind, {})

    def loud(self, kind: str) -> Mapping[Key, Stored]:
        """Those of a kind that are not quiet."""
        return self._loud.get(kind, {})

    def within(self, kind: str, namespace: str) -> Iterator[Stored]:
        """The objects of a kind in a namespace."""
        return (stored for key, stored in self.of(kind).items() if key[0] == namespace)

    def find(self, kind: str, namespace: str, name: str) -> Stored | None:
        """One object."""
        return self.of(kind).get((namespace, name))
