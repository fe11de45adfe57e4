"""The base of every subject: its name, targets, invariants and observations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.kit.changes import ChangeLog
from operator_protocols.ports import Invariant, SubjectSettings

__all__ = ["BaseSubject", "see_stranger"]


class BaseSubject:
    """A subject with these settings; a subclass adds `observe`.

    In `changes` a subclass notes the settings, accounts and members that its servers report.
    """

    def __init__(self, settings: SubjectSettings, invariants: Sequence[Invariant]) -> None:
        self.settings = settings
        self.name = settings.name
        self.invariants = invariants
        self.changes = ChangeLog()

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self.settings.targets()

    def present_targets(self) -> Sequence[Target]:
        """The same. ObservationError when there are none."""
        targets = self.targets()
        if not targets:
            raise ObservationError(f"{self.name!r} has no targets.")
        return targets

    def observation(self, seen: Iterable[Seen]) -> Observation:
        """What was seen of its targets now, and what became different there."""
        now = self.settings.clock.now()
        return Observation(self.name, now, tuple(seen), changes=self.changes.recent(now))


def see_stranger(target: Target) -> Seen:
    """A target of a kind that the subject does not know."""
    return Seen(target.name, problem=f"its kind {target.kind!r} is not supported")
