"""Every fault and every control of the rig; `breaks` has the mechanism, its rows are data."""

from __future__ import annotations

from operator_sre.subjects.kubernetes.breaks import control, fault
from operator_sre.subjects.kubernetes.pod_faults import POD_FAULTS
from operator_sre.subjects.kubernetes.system_faults import DAILY, PLATFORM, SYSTEM_FAULTS

__all__ = ["CONTROLS", "FAULTS", "ROWS", "TRUTHS"]

# The first fault is the plainest: a part is down. Controls of every subject are made of it.
ROWS = (PLATFORM[0], *POD_FAULTS, *SYSTEM_FAULTS, *PLATFORM[1:])
FAULTS = tuple(fault(row) for row in ROWS)
TRUTHS = {row.name: row.truths for row in ROWS}
CONTROLS = tuple(control(row) for row in DAILY)
