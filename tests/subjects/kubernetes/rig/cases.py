"""Every break of the real rig."""

from __future__ import annotations

from tests.subjects.kubernetes.rig.pods import POD_CASES
from tests.subjects.kubernetes.rig.systems import SYSTEM_CASES

__all__ = ["CASES"]

CASES = (*POD_CASES, *SYSTEM_CASES)
