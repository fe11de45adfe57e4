"""`operator agent start`, but its lease is short, so that a test need not wait for 30 s.

Run as `python -m tests.e2e.short_lease_agent HOME MODE`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from operator_sre.app.wiring import open_app
from operator_sre.config import load_config

__all__ = ["LEASE_S", "main"]

LEASE_S = 2.5


def main(words: Sequence[str]) -> None:
    """Work on tickets until killed."""
    flags = {"home": words[0], "mode": words[1]}
    config = load_config(flags=flags, environ=os.environ, cwd=Path.cwd())
    with open_app(config) as app:
        asyncio.run(replace(app.engine(), lease_s=LEASE_S).work())


if __name__ == "__main__":
    main(sys.argv[1:])
