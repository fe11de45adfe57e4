"""The table of faults in the docs, made from the plug-ins that come with us.

python -m tests.lab.reference
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from operator_protocols.ports import Fault
from operator_sre.plugins import GROUP, find_plugin

__all__ = ["DOCUMENT", "FIRST", "reference"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "lab.md"
FIRST = "## Faults\n"


def reference() -> str:
    """A table for each subject of ours that has a rig, in the order of their names."""
    points = (point for point in entry_points(group=GROUP))
    ours = sorted({one.name for one in points if one.value.startswith("operator_sre.")})
    lines = []
    for name in ours:
        plugin = find_plugin(name)
        if plugin.rig is not None and plugin.faults:
            lines += ["", f"### {name}", "", "| fault | what happens | breaks | correct outcome |"]
            lines += ["|---|---|---|---|", *map(_row, plugin.faults)]
    return "\n".join(lines) + "\n"


def _row(fault: Fault) -> str:
    breaks = ", ".join(f"`{one}`" for one in fault.breaks)
    return f"| `{fault.name}` | {fault.sentence} | {breaks} | {fault.end} |"


if __name__ == "__main__":
    before, _, _ = DOCUMENT.read_text().partition(FIRST)
    DOCUMENT.write_text(f"{before}{FIRST}{reference()}")
