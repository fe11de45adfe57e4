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
    while found := [step for step in waiting if all(one in done for one in waiting[step])]:
        for step in found:
            done[step] = None
            del waiting[step]
    return tuple(done)


def cycle_in(needs: Needs) -> tuple[str, ...]:
    """Steps that wait for each other in a circle, in the order of waiting; none if all is well."""
    known = set(needs)
    ordered = set(order_of({step: [one for one in needs[step] if one in known] for step in needs}))
    stuck = [step for step in needs if step not in ordered]
    if not stuck:
        return ()
    path: list[str] = [stuck[0]]
    while True:
        # Whoever is stuck waits for somebody who is stuck, so that this comes round.
        following = next(one for one in needs[path[-1]] if one in stuck)
        if following in path:
            return (*path[path.index(following) :], following)
        path.append(following)


def ready(needs: Needs, completed: Iterable[str], begun: Iterable[str]) -> tuple[str, ...]:
    """The steps that may begin now: not begun, and all they need is completed."""
    done, taken = set(completed), set(begun)
    return tuple(
        step
        for step, wanted in needs.items()
        if step not in taken and step not in done and done.issuperset(wanted)
    )
