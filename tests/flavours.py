"""The flavours of a system tool on this machine: `awk` may be mawk, gawk, BusyBox's, or another."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path

__all__ = ["flavours_of"]

# Programs that are an awk by another name.
_AWKS = ("mawk", "gawk", "original-awk")
# One program that is many tools, each by its name, and the words that make it list them.
_MULTI_CALL = {"busybox": ("--list",), "toybox": (), "coreutils": ()}
LIST_S_MAX = 30.0


def flavours_of(tool: str, folder: Path) -> dict[str, Path]:
    """The programs that are this tool: the installed one, then every other flavour, by its name.

    Each has the tool's own name in a folder of its own below `folder`, so that a command line need
    not be changed: the folder comes first on the PATH.
    """
    programs = {tool: shutil.which(tool)}
    if tool == "awk":
        programs |= {name: shutil.which(name) for name in _AWKS}
    programs |= {name: shutil.which(name) for name in _MULTI_CALL if tool in _tools_of(name)}
    found = {}
    for flavour, program in programs.items():
        if program is None:
            continue
        found[flavour] = folder / f"flavour-{flavour}" / tool
        found[flavour].parent.mkdir(exist_ok=True)
        if not found[flavour].is_symlink():
            found[flavour].symlink_to(Path(program).resolve())
    return found


@functools.cache
def _tools_of(multi_call: str) -> frozenset[str]:
    """The tools that such a program is; none when it is not installed."""
    program = shutil.which(multi_call)
    if program is None:
        return frozenset()
    asked = subprocess.run(
        [program, *_MULTI_CALL[multi_call]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIST_S_MAX,
        check=False,
    )
    listed = (asked.stdout + asked.stderr).decode(errors="replace")
    return frozenset(re.findall(r"[\w\[-]+", listed))
