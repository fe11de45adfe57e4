"""The reference of tools in the docs, made from the tools.

python -m tests.app.reference
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from operator_protocols.domain.tool import Parameter
from operator_sre.app.tools import Offered, list_tools
from tests.app.home import opened

__all__ = ["DOCUMENT", "FIRST", "reference"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "tools.md"
FIRST = "## Reference\n"


def reference(tools: Iterable[Offered]) -> str:
    """A table of tools, then what each takes."""
    found = list(tools)
    lines = [
        "",
        "| tool | risk | approval | undo | again | what it does |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        spec = one.spec
        undo = spec.undo or ("yes" if spec.reversible else "no" if spec.changes else "-")
        again = "yes" if spec.idempotent else "no"
        cells = (f"`{spec.name}`", spec.risk, one.approval, undo, again, spec.sentence)
        lines.append(f"| {' | '.join(cells)} |")
    for one in found:
        lines += ["", f"### {one.spec.name}", ""]
        lines += [_told(each) for each in one.spec.parameters] or ["It takes nothing."]
        if one.spec.verify:
            lines += ["", f"To see that it worked: {one.spec.verify}"]
    return "\n".join(lines) + "\n"


def _told(one: Parameter) -> str:
    notes = ["required" if one.required else f"default `{one.default!r}`"]
    notes += [f"one of {', '.join(one.choices)}"] if one.choices else []
    notes += [f"from {one.minimum:.10g}"] if one.minimum is not None else []
    notes += [f"up to {one.maximum:.10g}"] if one.maximum is not None else []
    notes += [f"the ticket's {one.infers} if missing"] if one.infers else []
    return f"- `{one.name}` ({one.type}): {one.sentence}; {', '.join(notes)}."


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as app:
        told = reference(list_tools(app))
    before, _, _ = DOCUMENT.read_text().partition(FIRST)
    DOCUMENT.write_text(f"{before}{FIRST}{told}")
