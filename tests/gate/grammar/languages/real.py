"""Running the real tool on a small input in a folder of its own, and looking at what is left."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.flavours import flavours_of

__all__ = ["every_flavour", "leaves_everything_as_it_was", "tool"]

INPUT = '{"a": 1, "b": [{"name": "x", "n": 3}], "text": "root:x:0:0 80% error"}\n'


def tool(name: str) -> str:
    """Where a tool is; skips the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def every_flavour(name: str, factory: pytest.TempPathFactory) -> list[str]:
    """Where every flavour of a tool is; skips the test where none is installed."""
    folder = factory.getbasetemp() / "flavours"
    folder.mkdir(exist_ok=True)
    found = flavours_of(name, folder)
    if not found:
        pytest.skip(f"needs {name}")
    return [str(program) for program in found.values()]


def leaves_everything_as_it_was(
    folder: Path, argv: list[str]
) -> subprocess.CompletedProcess[bytes]:
    """Run it beside a file `input` with nothing in its environment; nothing may have changed."""
    (folder / "input").write_text(INPUT)
    before = _tree(folder)
    done = subprocess.run(
        argv,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert _tree(folder) == before
    return done


def _tree(folder: Path) -> dict[str, tuple[int, int, str]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        text = path.read_text() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (state.st_mode, state.st_mtime_ns, text)
    return found
