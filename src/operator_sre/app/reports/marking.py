"""Text from outside as Markdown that says what the text says and does nothing else. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from operator_sre.drawing.showing import visible

__all__ = ["block", "cell", "code", "prose", "table"]

# What begins something in the middle of a line: emphasis, code, links, HTML, entities, cells.
_INSIDE = re.compile(r"[\\`*_\[\]<>|~&$]")
# What begins something at the start of a line: headings, lists, quotes, rules, tables.
_STARTS = re.compile(r"^(?:[#+=:-]|\d{1,9}(?=[.)](?:\s|$)))")
# What a renderer would make a link of, although nobody marked it as one.
_LINKS = re.compile(r"(?i)(?<=[a-z])(:)(?=//)|(?<=www)(\.)|(?<=mailto)(:)|(?<=xmpp)(:)")
_BLANKS = re.compile(r"\s+")
_RUNS = re.compile("`+")
FENCE_MIN = 3


def prose(text: str) -> str:
    """One line of plain text."""
    return _STARTS.sub(_escaped, cell(text).lstrip())


def cell(text: str) -> str:
    """Plain text where no line starts, such as in a table."""
    line = visible(_BLANKS.sub(" ", text))
    line = _INSIDE.sub(lambda found: f"\\{found[0]}", line)
    return _LINKS.sub(lambda found: f"\\{found[0]}", line)


def _escaped(found: re.Match[str]) -> str:
    """A number at the start is a list by the sign behind it; all else by itself."""
    return f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}"


def code(text: str, *, in_cell: bool = False) -> str:
    """One line of code; in a cell of a table a bar would end it."""
    line = visible(text.replace("\r\n", "\n")).replace("\t", " ").strip()
    if not line:
        return "-"
    line = line.replace("|", "\\|") if in_cell else line
    ticks = "`" * (max(map(len, _RUNS.findall(line)), default=0) + 1)
    padded = f" {line} " if line[0] == "`" or line[-1] == "`" else line
    return f"{ticks}{padded}{ticks}"


def block(text: str) -> Sequence[str]:
    """Lines of code, whatever they contain."""
    lines = visible(text, lines=True).split("\n")
    fence = "`" * max(FENCE_MIN, max(map(len, _RUNS.findall(text)), default=0) + 1)
    return [f"{fence}text", *lines, fence]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Sequence[str]:
    """A table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(one)} |" for one in lines]
