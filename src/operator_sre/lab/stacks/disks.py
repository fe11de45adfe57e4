"""Volumes of a size in a stack: filled up, drained, and looked at from the service that keeps them.

A volume that lives in memory is gone as soon as nobody has it mounted. One service of the stack
mounts all of them and does nothing, so that a store that is killed finds its data again.
"""

from __future__ import annotations

from operator_protocols.domain.action import Outcome
from operator_protocols.errors import RigError
from operator_protocols.ports import Job
from operator_sre.executor.docker.execs import Inside, run_inside
from operator_sre.lab.stacks.containers import Containers

__all__ = ["Disks"]

FILLER = ".operator-filler"
EXEC_S_MAX = 60.0
# As much as a page or two: nobody can write anything with that.
FULL_KB = 64
# `f` is what is free, in kilobytes; others write meanwhile, so it is looked at again.
_FILL = """\
set -e
cd "$1"
for round in 1 2 3; do
  f=$(df -Pk . | awk 'NR==2 {print $4}')
  more=$((f - $2))
  [ "$more" -gt 0 ] || break
  dd if=/dev/zero bs=1048576 count="$((more / 1024))" >> "$3" 2>/dev/null || true
  dd if=/dev/zero bs=1024 count="$((more % 1024))" >> "$3" 2>/dev/null || true
done
"""


class Disks:
    """The volumes of one stack. All is done by a shell in the service `keeper`."""

    def __init__(self, containers: Containers, keeper: str) -> None:
        self._containers = containers
        self._keeper = keeper

    async def fill(self, place: str, *, left_bytes: int) -> None:
        """Leave only so much room in a volume."""
        await self._sh(_FILL, place, str(left_bytes // 1024), FILLER)

    async def drain(self, place: str) -> None:
        """Give back what was used up."""
        await self._sh('rm -f "$1/$2"', place, FILLER)

    async def full(self, places: list[str]) -> frozenset[str]:
        """Those that were filled, or have no room left."""
        script = (
            'for d in "$@"; do f=$(df -Pk "$d" | awk \'NR==2 {print $4}\');'
            f' if [ -e "$d/{FILLER}" ] || [ "$f" -lt {FULL_KB} ]; then echo "$d"; fi; done'
        )
        return frozenset((await self._sh(script, *places)).split())

    async def _sh(self, script: str, *words: str) -> str:
        row = await self._containers.row(self._keeper)
        inside = Inside(row.id, ("sh", "-c", script, "sh", *words), user="0")
        result = await run_inside(self._containers.engine, inside, Job(timeout_s=EXEC_S_MAX))
        if result.outcome is not Outcome.RAN or result.exit_code != 0:
            said = " ".join(result.stderr.split())[:300]
            raise RigError(f"The volumes of the stack cannot be changed: {said or 'no answer'}.")
        return result.stdout
