"""Which violations belong together: those whose targets need one another. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from operator_protocols.domain.observation import Violation
from operator_protocols.domain.target import Target

__all__ = ["INCIDENTS_MAX", "Needs", "incidents_of", "needs_of"]

# When more than so many things that have nothing in common break in one look, they do have
# something in common, which we do not know: they are one incident, not a flood of tickets.
INCIDENTS_MAX = 20
Needs = Mapping[str, frozenset[str]]


def incidents_of(
    violations: Sequence[Violation], targets: Sequence[Target]
) -> list[tuple[Violation, ...]]:
    """Violations grouped into incidents, in each the root first: what the others depend on."""
    broken = {violation.target for violation in violations}
    needs = {name: one & broken for name, one in needs_of(broken, targets).items()}
    group = _groups(sorted(broken), needs)
    dependants = Counter(need for name in broken for need in needs[name])

    def order(violation: Violation) -> tuple[int, int, str, str]:
        name = violation.target
        return -dependants[name], -violation.severity.rank, name, violation.invariant

    together: dict[str, list[Violation]] = {}
    for violation in sorted(violations, key=order):
        together.setdefault(group[violation.target], []).append(violation)
    if len(together) > INCIDENTS_MAX:
        return [tuple(sorted(violations, key=order))]
    first = {root: min(one.target for one in found) for root, found in together.items()}
    return [tuple(together[root]) for root in sorted(together, key=lambda root: first[root])]


def needs_of(names: set[str], targets: Sequence[Target]) -> Needs:
    """Every target that each of these needs, directly or through another."""
    direct = {target.name: target.depends_on for target in targets}
    found: dict[str, frozenset[str]] = {}
    for name in names:
        seen: set[str] = set()
        queue = list(direct.get(name, ()))
        while queue:
            need = queue.pop()
            if need not in seen:
                seen.add(need)
                queue.extend(direct.get(need, ()))
        found[name] = frozenset(seen - {name})
    return found


def _groups(names: Sequence[str], needs: Needs) -> dict[str, str]:
    """For each name one that stands for its group: those that need one another, in any way."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = name = leader[leader[name]]
        return name

    for name in names:
        for need in needs[name]:
            leader[find(need)] = find(name)
    return {name: find(name) for name in names}
