"""Which subjects somebody means. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from operator_protocols.errors import NotFoundError, UsageError

__all__ = ["chosen"]

START = "Start one with: operator lab up ratelimiter"


def chosen(named: Sequence[str], *, known: Sequence[str], installed: Sequence[str]) -> list[str]:
    """The subjects that were named, or the only one there is.

    One that is neither known here nor installed is not the same as one that has no rig yet.
    """
    for name in named:
        if name in known:
            continue
        if name in installed:
            raise NotFoundError(f"{name!r} is not configured and has no rig.", next_step=START)
        listing = f"Subjects here: {', '.join(known) or 'none'}."
        raise NotFoundError(f"There is no subject {name!r}.", next_step=listing)
    if named:
        return list(dict.fromkeys(named))
    if len(known) == 1:
        return list(known)
    if not known:
        raise UsageError("There is no subject to watch.", next_step=START)
    raise UsageError(
        "There are several subjects.", next_step=f"Name one with --subject: {', '.join(known)}."
    )
