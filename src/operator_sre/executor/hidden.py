"""Which files a confined command cannot read: Operator's own, and credentials."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from operator_protocols.domain.confinement import Confinement
from operator_sre.processes.runner.wire import Bounds

__all__ = ["Hidden", "bounds_of"]

HOMES_MAX = 16
FRESH_S = 10.0
# The kernel closes these by other rules.
_ELSEWHERE = re.compile(r"/(?:proc|dev(?!/shm)|inet\d?)/")
_ANYWHERE = "/**/"


class Hidden:
    """The hidden files that there are now, looked for again after a while.

    `own` are always hidden. Of the patterns, those with a root are looked for there, and those of
    files that begin with a dot in the homes of people. `shown` can be read, wherever it lies.
    """

    def __init__(
        self,
        own: Iterable[Path],
        patterns: Callable[[], Iterable[str]],
        *,
        shown: Path | None = None,
    ) -> None:
        self.own = tuple(dict.fromkeys(map(os.path.realpath, own)))
        self.shown = (os.path.realpath(shown),) if shown is not None else ()
        self._patterns = patterns
        self._found: tuple[str, ...] = ()
        self._until = 0.0

    def __call__(self) -> tuple[str, ...]:
        """Their paths, in order."""
        now = time.monotonic()
        if now >= self._until:
            found = set(self.own)
            homes = _homes()
            for pattern in self._patterns():
                if pattern.startswith(f"{_ANYWHERE}."):
                    name = pattern.removeprefix(_ANYWHERE)
                    for home in homes:
                        found |= _existing(f"{home}/{name}")
                elif not pattern.startswith(_ANYWHERE) and not _ELSEWHERE.match(pattern):
                    found |= _existing(pattern)
            # What lies below something hidden is hidden with it.
            outermost = {
                path for path in found if not any(path.startswith(f"{each}/") for each in found)
            }
            self._found = tuple(sorted(outermost))
            self._until = now + FRESH_S
        return self._found


def bounds_of(confinement: Confinement, hidden: Hidden) -> Bounds:
    """The bounds of a confinement. An approved command may read credentials of others."""
    return Bounds(
        hidden=hidden.own if confinement.writes is None or confinement.credentials else hidden(),
        shown=hidden.shown if confinement.shown is None else confinement.shown,
        reads=confinement.reads,
        writable=confinement.writes,
        hosts=confinement.hosts,
        sockets=confinement.sockets,
        programs=confinement.programs,
        abilities=tuple(map(str, confinement.abilities)),
        signals=confinement.processes,
        # A rig has addresses. What a name server is asked for leaves the machine.
        resolves=not confinement.inside,
    )


def _homes() -> list[str]:
    """The home directories of people, our own first. Services have none."""
    homes = [os.path.expanduser("~"), "/root"]  # noqa: PTH111
    with contextlib.suppress(OSError):
        homes += [user.pw_dir for user in pwd.getpwall() if user.pw_dir.startswith("/home/")]
    return [home for home in dict.fromkeys(homes[:HOMES_MAX]) if home not in ("/", "")]


def _existing(pattern: str) -> set[str]:
    """The files that a pattern means; for all below a folder, the folder."""
    pattern = pattern.removesuffix("/**")
    if "**" in pattern:
        return set()
    if not glob.has_magic(pattern):
        return {os.path.realpath(pattern)} if os.path.lexists(pattern) else set()
    found = glob.glob(pattern, include_hidden=True)  # noqa: PTH207  there are hundreds of patterns
    return set(map(os.path.realpath, found))
