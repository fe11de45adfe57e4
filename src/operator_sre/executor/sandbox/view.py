"""What a boxed script sees of this machine: programs and libraries, read-only, and nothing else."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PATH", "View", "reachable", "see"]

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# Where programs and libraries lie; links are created again, everything else is bound.
_TREES = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
# No secret lies in these: what programs need, and what encrypted connections need.
_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_TRUSTED = (
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates"),
    *("/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted"),
)
_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
_BASHES = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


@dataclass(frozen=True, slots=True)
class View:
    """The words for bubblewrap, and the programs that are there; "" where there is none.

    `trusted` are the words for a box that has a way out.
    """

    words: tuple[str, ...]
    trusted: tuple[str, ...]
    python: str
    bash: str
    prlimit: str


def see(*, hides: Iterable[Path] = (), by_anybody: bool) -> View:
    """What this machine offers. `by_anybody` when a user without rights has to read it."""
    words: list[str] = []
    for tree in map(Path, _TREES):
        if tree.is_symlink():
            words += ["--symlink", str(tree.readlink()), str(tree)]
        elif tree.is_dir():
            words += ["--ro-bind", str(tree), str(tree)]
    words += _files(_FILES)
    # The Python of the machine, else our own, with the folder to bind.
    if found := _first(_PYTHONS):
        python, prefix = found, ""
    else:
        ours, base = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
        if by_anybody and not reachable(ours):
            python, prefix = "", ""
        else:
            python, prefix = str(ours), str(base)
    if prefix:
        words += ["--ro-bind", prefix, prefix]
    shown = [Path(each) for each in (*_TREES, prefix) if each]
    for hidden in hides:
        if any(tree in hidden.parents for tree in shown):
            words += ["--tmpfs", str(hidden), "--remount-ro", str(hidden)]
    return View(
        words=tuple(words),
        trusted=tuple(_files(_TRUSTED)),
        python=python,
        bash=_first(_BASHES),
        prlimit=shutil.which("prlimit", path=PATH) or "",
    )


def _files(paths: Iterable[str]) -> list[str]:
    found = [Path(path) for path in paths if Path(path).exists()]
    return [word for file in found for word in ("--ro-bind", str(file.resolve()), str(file))]


def _first(paths: Iterable[str]) -> str:
    return next((path for path in paths if Path(path).exists()), "")


def reachable(path: Path) -> bool:
    """True when any user of this machine may run it."""
    path = path.resolve()
    try:
        others = [each.stat().st_mode for each in (path, *path.parents)]
    except OSError:
        return False
    return all(mode & stat.S_IXOTH for mode in others) and bool(others[0] & stat.S_IROTH)
