"""Which step comes when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["cycle_in", "order_of", "ready"]

Needs = Mapping[str, Sequence[str]]


def order_of(needs: Needs) -> tuple[str, ...]:
    """All steps, each behind those it needs, otherwise as they were written; cycles are left out.

    What needs a step that is not there is left out as well.
    """
    done: dict[str, None] = {}
    waiting = dict(needs)
    while found := [step for step in waiting if all(each in done for each in waiting[step])]:
        for step in found:
            done[step] = None
            del waiting[step]
    return tuple(done)


def cycle_in(needs: Needs) -> tuple[str, ...]:
    """Steps that wait for each other in a circle, in the order of waiting; none if all is well."""
    known = set(needs)
    ordered = set(
        order_of({step: [need for need in needs[step] if need in known] for step in needs})
    )
    stuck = [step for step in needs if step not in ordered]
    if not stuck:
        return ()
    path: list[str] = [stuck[0]]
    while True:
        # A stuck step waits for another stuck step, so this finds a cycle.
        following = next(need for need in needs[path[-1]] if need in stuck)
        if following in path:
            return (*path[path.index(following) :], following)
        path.append(following)


def ready(needs: Needs, completed: Iterable[str], started: Iterable[str]) -> tuple[str, ...]:
    """The steps that may start now: not started, and all dependencies completed."""
    done, taken = set(completed), set(started)
    return tuple(
        step
        for step, wanted in needs.items()
        if step not in taken and step not in done and done.issuperset(wanted)
    )
