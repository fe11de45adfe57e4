"""`python -m tests.subjects.bed.start DIRECTORY TARGET`: restarts a part of the bed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from operator_lab.rig import Rig
from operator_protocols.errors import OperatorError


async def main(directory: str, target: str) -> int:
    try:
        process = await Rig.attach(Path(directory)).restart(target)
    except OperatorError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(f"{target} runs as pid {process.pid}\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2])))
