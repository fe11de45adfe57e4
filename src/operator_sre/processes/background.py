"""Background processes: detach from the starter, and adopt orphans."""

from __future__ import annotations

import os
import sys

__all__ = ["adopt_orphans", "detach"]

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, where the kernel can do it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def detach() -> None:
    """Leave the starter's session and family; the starter's own child ends at once."""
    if os.fork():
        os._exit(0)
    os.setsid()
