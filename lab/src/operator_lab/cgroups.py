"""Control groups of a rig: named after its directory, so that a later process removes them."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

__all__ = ["group_name", "make_groups", "remove_groups"]

PREFIX = "operator-lab-"
ROOT = Path("/sys/fs/cgroup")
_CPUSET = ("cpuset.cpus", "cpuset.mems")
# The kubelet needs these; the other controllers of this machine stay as they are.
_CONTROLLERS = ("cpu", "cpuset", "hugetlb", "memory", "pids")
_UNIFIED = "cgroup.controllers"


def group_name(directory: Path) -> str:
    """The name of the groups of the rig in a directory."""
    digest = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()
    return f"{PREFIX}{digest[:12]}"


def make_groups(name: str) -> None:
    """A group of that name in every hierarchy."""
    _require_own(name)
    if (ROOT / _UNIFIED).exists():
        (ROOT / name).mkdir(exist_ok=True)
        controllers = [
            each for each in _CONTROLLERS if each in (ROOT / _UNIFIED).read_text().split()
        ]
        for folder in (ROOT, ROOT / name):
            for controller in controllers:
                with contextlib.suppress(OSError):
                    (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        return
    for hierarchy in filter(Path.is_mount, _hierarchies()):
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in _CPUSET:
            if (hierarchy / file).exists():
                (group / file).write_text((hierarchy / file).read_text())


def remove_groups(name: str) -> None:
    """Remove the groups whose name begins with this one; nothing where there is none."""
    _require_own(name)
    for hierarchy in (ROOT, *_hierarchies()):
        for group in hierarchy.glob(f"{name}*"):
            folders = [group, *(each for each in group.rglob("*") if each.is_dir())]
            for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _require_own(name: str) -> None:
    """Only groups of a rig are made and removed."""
    if not name.startswith(PREFIX) or name == PREFIX:
        raise ValueError(f"{name!r} is not a group of a rig")


def _hierarchies() -> list[Path]:
    try:
        return [each for each in ROOT.iterdir() if each.is_dir() and not each.is_symlink()]
    except OSError:
        return []
