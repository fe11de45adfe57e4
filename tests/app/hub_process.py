"""Another process that serves the hub: `python -m tests.app.hub_process FOLDER STORE`.

It goes on until it is ended.
"""

from __future__ import annotations

import asyncio
import sys
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


def main() -> None:
    """Serve until ended."""
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
