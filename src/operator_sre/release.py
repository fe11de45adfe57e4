"""What is installed: its version, its commit, and the documentation that came with it.

A wheel carries the commit it was built from and the documentation in `manual/`; `.ci/dist.py`
writes both. A checkout asks git, and reads `docs/`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from operator_sre import __version__

__all__ = ["CHANGED", "code_revision", "describe_version", "documentation", "read_pages"]

GIT_S_MAX = 10.0
DISTRIBUTION = "operator-sre"
CHANGED = "+"
COMMIT_CHARACTERS = 12
_OURS = Path(__file__).resolve()
_MANUAL = "manual"
_COMMIT = "commit.txt"


def code_revision(file: Path = _OURS) -> str:
    """The commit of this file, with a `+` where the tree differs; else the version."""
    built = file.with_name(_MANUAL) / _COMMIT
    if built.is_file():
        return built.read_text(encoding="utf-8").strip()
    # A folder of packages may lie in the checkout of something else, which does not know our file.
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return _version()
    commit = _git(file.parent, "rev-parse", "--verify", "HEAD")
    changed = _git(file.parent, "status", "--porcelain", "--untracked-files=normal")
    if not commit or changed is None:
        return _version()
    return commit + (CHANGED if changed else "")


def describe_version() -> str:
    """The version with its commit, such as `0.1.0 (commit 0123456789ab)`."""
    revision = code_revision()
    commit = revision.removesuffix(CHANGED)
    if commit == _version():
        return __version__
    changed = ", with local changes" if revision.endswith(CHANGED) else ""
    return f"{__version__} (commit {commit[:COMMIT_CHARACTERS]}{changed})"


def documentation() -> Path | None:
    """The folder of the documentation; None if this installation has none."""
    folders = (_OURS.with_name(_MANUAL), _OURS.parents[2] / "docs")
    return next((folder for folder in folders if (folder / "glossary.md").is_file()), None)


def read_pages(folder: Path) -> Mapping[str, str]:
    """The pages by topic, such as `gate` or `subjects/etcd`, each with its title, sorted."""
    pages = {}
    for path in sorted(folder.rglob("*.md")):
        with path.open(encoding="utf-8") as lines:
            title = next((line for line in lines if line.startswith("# ")), "")
        pages[path.relative_to(folder).with_suffix("").as_posix()] = title[2:].strip()
    return pages


def _git(folder: Path, *words: str) -> str | None:
    """What git prints; None where there is none, or it refuses."""
    # No user settings and no other repository; reading must neither wait for a lock nor take one.
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
        return __version__
