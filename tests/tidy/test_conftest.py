"""The tests' own rules, tried on a small suite of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

_SKIPPING = """
import pytest
def test_fine(): ...
@pytest.mark.parametrize("n", [1, 2])
def test_docker(n): pytest.skip("needs a Docker engine")
@pytest.mark.skipif(True, reason="needs a browser")
def test_browser(): ...
@pytest.mark.xfail(strict=True)
def test_known(): assert False
"""
_MODULE_SKIP = "import pytest\npytest.skip('needs systemd', allow_module_level=True)\n"
_NETWORK = """
import contextlib, os, socket
def test_out():
    with contextlib.suppress(OSError), socket.socket() as s:
        s.connect(("192.0.2.1", 9))
def test_wide():
    with contextlib.suppress(OSError), socket.socket() as s:
        s.bind(("", 0))
def test_wide_six():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as s:
        s.bind(("::", 0))
def test_near():
    with socket.socket() as s, socket.socket() as c:
        s.bind(("127.0.0.1", 0))
        s.listen()
        c.connect(s.getsockname())
def test_environment():
    assert not [name for name in os.environ if name.startswith(("OPERATOR_", "ANTHROPIC_"))]
    assert "state" in os.environ["XDG_STATE_HOME"]
"""


def _run(
    folder: Path, *options: str, files: dict[str, str], **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest on these files with our own conftest.py."""
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (folder / name).write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**kept, **environ},
    )


_ALONE_AND_SPREAD = [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)]


@pytest.mark.parametrize("options", _ALONE_AND_SPREAD, ids=["alone", "xdist"])
def test_skips_are_listed_by_reason(tmp_path: Path, options: tuple[str, ...]) -> None:
    files = {"test_a.py": _SKIPPING, "test_b.py": _MODULE_SKIP}
    done = _run(tmp_path, *options, files=files, OPERATOR_FORBID_SKIPS="0")
    table = done.stdout.partition("skipped, and why")[2]
    assert done.returncode == 0, done.stdout
    assert [line.split() for line in table.splitlines()[1:4]] == [
        ["2", "needs", "a", "Docker", "engine"],
        ["1", "needs", "a", "browser"],
        ["1", "needs", "systemd"],
    ]


@pytest.mark.parametrize("options", _ALONE_AND_SPREAD, ids=["alone", "xdist"])
def test_skips_can_be_forbidden(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = _run(tmp_path, *options, files={"test_a.py": _SKIPPING}, OPERATOR_FORBID_SKIPS="1")
    assert done.returncode == 1, done.stdout
    assert "a skip is a failure" in done.stdout


def test_nothing_skipped_is_said(tmp_path: Path) -> None:
    files = {"test_a.py": "def test_fine(): ..."}
    done = _run(tmp_path, files=files, OPERATOR_FORBID_SKIPS="1")
    assert done.returncode == 0, done.stdout
    assert "nothing skipped" in done.stdout


def test_tests_stay_on_loopback_and_know_no_user(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        "-rA",
        files={"test_a.py": _NETWORK},
        OPERATOR_FORBID_SKIPS="",
        OPERATOR_HOME="/nowhere",
        ANTHROPIC_API_KEY="not a key",
    )
    assert "ERROR test_a.py::test_out" in done.stdout
    assert "ERROR test_a.py::test_wide" in done.stdout
    assert "ERROR test_a.py::test_wide_six" in done.stdout
    assert "ERROR test_a.py::test_near" not in done.stdout
    assert "tests stay on loopback, this one tried: socket.connect" in done.stdout
    assert "FAILED" not in done.stdout.replace("FAILED test_a.py::test_environment", "")
