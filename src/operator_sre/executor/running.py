"""What runs right now, found by what its runner wrote down, and ended without asking it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from operator_sre.processes.runner.records import boot_id, live_claims, mark_of
from operator_sre.processes.tree import Tree

__all__ = ["Running"]

GRACE_S = 2.0
LOOKS_MAX = 20


class Running:
    """The jobs under way in the folder of a runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def end_all(self, *, grace_s: float = GRACE_S) -> tuple[int, ...]:
        """End every tree, TERM and then KILL; returns the pids of those that lived."""
        ended: set[int] = set()
        # Again, for what was started while the others were being ended.
        for _ in range(LOOKS_MAX):
            found = [(tree, tree.members()) for tree in self._trees()]
            living = [(tree, members) for tree, members in found if members]
            if not living:
                break
            ended |= {members[0].process.pid for _, members in living}
            await asyncio.gather(*(tree.end(grace_s=grace_s) for tree, _ in living))
        return tuple(sorted(ended))

    def _trees(self) -> Iterator[Tree]:
        for claim in live_claims(self.folder):
            if claim.boot == boot_id():
                # A pid may be somebody else by now, so its start time and its mark go along.
                yield Tree(claim.process, mark=mark_of(claim.id))
