"""The real PD with small stores of our own, where they were built on this machine."""

from __future__ import annotations

from pathlib import Path

from tests.tools.pd import built, folder

__all__ = ["real_programs"]


def real_programs() -> Path | str:
    """The folder of `pd-server` and `tikv-server`, or why there is none."""
    return folder() if built() else "the real PD is not built here: python -m tests.tools.pd"
