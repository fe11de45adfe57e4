"""Which violations belong together: those whose targets need one another. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from operator_protocols.domain.observation import Violation
from operator_protocols.domain.target import Target, dependencies_of

__all__ = ["incidents_of"]


def incidents_of(
    violations: Sequence[Violation], targets: Sequence[Target]
) -> list[tuple[Violation, ...]]:
    """Violations grouped into incidents, in each the root first: what the others depend on."""
    broken = {violation.target for violation in violations}
    needs = {name: dependencies_of(name, targets) & broken for name in broken}
    groups: list[set[str]] = []
    for name in sorted(broken):
        joined = {name} | needs[name]
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]

    def order(violation: Violation) -> tuple[int, int, str, str]:
        dependants = sum(violation.target in needs[name] for name in broken)
        return -dependants, -violation.severity.rank, violation.target, violation.invariant

    return [
        tuple(sorted((v for v in violations if v.target in group), key=order)) for group in groups
    ]
