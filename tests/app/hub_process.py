"""Another process that serves the hub: `python -m tests.app.hub_process FOLDER STORE`.

It goes on until it is ended.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from operator_sre.app.hub import Hub
from tests.app.home import opened

__all__ = ["main"]


async def _serve(folder: Path, store: str) -> None:
    flags = {"store": store} if store else {}
    with opened(folder, mode="approve", **flags) as app:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await Hub(app).serve()


def main(words: Sequence[str]) -> None:
    """Serve until ended."""
    asyncio.run(_serve(Path(words[0]), words[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
