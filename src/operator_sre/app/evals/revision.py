"""Which code this is: the commit of a checkout, or the version of what is installed."""

from __future__ import annotations

import os
import subprocess
from importlib import metadata
from pathlib import Path

import operator_sre

__all__ = ["code_revision"]

GIT_S_MAX = 10.0
DISTRIBUTION = "operator-sre"
CHANGED = "+"
_OURS = Path(operator_sre.__file__).resolve()


def code_revision(file: Path = _OURS) -> str:
    """The commit that this file is of, with a `+` where the tree differs; else the version."""
    # A folder of packages may lie in the checkout of something else, which does not know our file.
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return _version()
    commit = _git(file.parent, "rev-parse", "--verify", "HEAD")
    changed = _git(file.parent, "status", "--porcelain", "--untracked-files=normal")
    if not commit or changed is None:
        return _version()
    return commit + (CHANGED if changed else "")


def _git(folder: Path, *words: str) -> str | None:
    """What git says; None where there is none, or it refuses."""
    # Nobody's settings and no other repository; looking must not wait for a lock, nor take one.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env = {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    command = ("git", "-c", "core.fsmonitor=false", *words)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


def _version() -> str:
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return operator_sre.__version__
