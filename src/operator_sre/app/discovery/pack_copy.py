"""A pack as the description of what was found: its own address, unit and files. Pure but for files.

What a pack only guesses and is not so here is left out, because a wrong pid file or command would
lead to a wrong diagnosis.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from operator_sre.app.packs import find_packs

if TYPE_CHECKING:
    from operator_sre.app.discovery.discover import Proposal

__all__ = ["copy_pack", "has_pack"]

_FILE = re.compile(r"^    (pid_file|log|data_dir): (\S+)$")
_LEVERS = re.compile(r"^levers:\n(?:[ #].*\n|\n)*", re.MULTILINE)
_START = re.compile(r"(\[systemctl, \w+, )[^\]]+\]")


def has_pack(name: str) -> bool:
    """Whether there is a pack of this name."""
    return bool(name) and any(pack.name == name for pack in find_packs())


def copy_pack(proposal: Proposal, *, root: Path = Path("/")) -> str:
    """The text of its pack for this proposal."""
    text = next(pack.text for pack in find_packs() if pack.name == proposal.pack)
    host, _, port = proposal.places[0].rpartition(":")
    text = text.replace("@NAME@", proposal.name)
    if proposal.runs_at:
        return re.sub(r"^    # runs_at: .*$", f"    runs_at: {proposal.runs_at}", text, flags=re.M)
    text = re.sub(r"^    host: .*$", f"    host: {host.strip('[]')}", text, count=1, flags=re.M)
    text = re.sub(r"^    port: .*$", f"    port: {port}", text, count=1, flags=re.M)
    access = f"access: {{user: operator, password_file: {proposal.name}.password}}"
    text = re.sub(r"^    access: .*$", f"    {access}", text, flags=re.M)
    if proposal.grant:
        text = re.sub(r"^    # access: .*$", f"    {access}", text, count=1, flags=re.M)
    lines = []
    for line in text.splitlines():
        file = _FILE.match(line)
        is_here = file is None or (not proposal.is_remote and (root / file[2].lstrip("/")).exists())
        lines.append(line if is_here else line.replace("    ", "    # ", 1))
    text = "\n".join(lines) + "\n"
    if proposal.unit:
        return _START.sub(rf"\g<1>{proposal.unit}]", text)
    # Without a unit it is unknown how it is started.
    return _LEVERS.sub("", text)
