"""A full disk: a clear error, nothing acknowledged is lost, and it is over when there is room."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A mount that only this process tree sees and that ends with it, for whoever runs the tests.
_PRIVATE = ("unshare", "--user", "--map-root-user", "--mount")
_ON_A_SMALL_DISK = 'mount -t tmpfs -o size=4m tmpfs "$1" && shift && exec "$@"'


def _filled(*argv: str) -> None:
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["whole"] is True
    assert told["lost"] == []
    assert told["acknowledged"] > 20
    assert told["behind"] == 20
    assert "could not be written" in told["error"]
    assert "free space" in told["error"]
    assert "\n" not in told["error"]


def test_a_file_that_may_not_grow_is_told_and_survived(tmp_path: Path) -> None:
    _filled(sys.executable, "-m", "tests.crash.small_disk", "limit", str(tmp_path))


def test_a_disk_without_room_is_told_and_survived(tmp_path: Path) -> None:
    mount = (*_PRIVATE, "sh", "-c", _ON_A_SMALL_DISK, "sh", str(tmp_path))
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare, for a small disk of one's own")
    if subprocess.run([*mount, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs to be allowed a mount in a namespace of one's own")
    _filled(*mount, sys.executable, "-m", "tests.crash.small_disk", "ballast", str(tmp_path))
