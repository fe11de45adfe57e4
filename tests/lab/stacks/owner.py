"""A process that owns a rig of containers and then waits, to be killed.

Run as `python -m tests.lab.stacks.owner DIRECTORY IMAGE`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from operator_lab.stacks.rig import raise_stack
from operator_protocols.domain.stack import StackSpec

__all__ = ["own", "plain_spec"]

PLAIN = Path(__file__).parent / "plain"


def plain_spec(image: str) -> StackSpec:
    """Three containers of busybox."""
    return StackSpec("plain", str(PLAIN), (), settings={"TEST_IMAGE": image})


async def own(directory: Path, image: str) -> None:
    """Bring a rig up as its owner, say so, and never let go of it."""
    rig = await raise_stack(plain_spec(image), directory, owned=True)
    sys.stdout.write(f"{type(rig).__name__}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(own(Path(sys.argv[1]), sys.argv[2]))
