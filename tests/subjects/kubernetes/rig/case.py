"""A break of the real rig, and what must be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.subjects.kubernetes.rig.objects import Object

__all__ = ["RigCase"]


@dataclass(frozen=True, slots=True)
class RigCase:
    """One break. `causes` are the right ones, `blamed` the object that must be named, `event` the
    reason of the API event from which detection counts; without one the break counts.
    """

    name: str
    group: str
    invariant: str
    causes: tuple[str, ...]
    blamed: str
    objects: tuple[Object, ...] = ()
    change: tuple[tuple[str, ...], ...] = ()
    undo: tuple[tuple[str, ...], ...] = ()
    stop: str = ""
    event: str = ""
    lease: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
