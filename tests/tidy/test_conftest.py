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
_MARKED = """
import pytest
@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3])
def test_long(n): ...
@pytest.mark.system
@pytest.mark.parametrize("n", [1, 2])
def test_engine(n): ...
@pytest.mark.system(smoke=True)
def test_smoke(): ...
@pytest.mark.slow
@pytest.mark.system
def test_both(): ...
def test_plain(): ...
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

_MIXED = """
import os, threading, warnings, pytest
from pathlib import Path
def test_passes(tmp_path):
    print("said by the one that passes")
    seen = Path(os.environ["SEEN"])
    (seen / str(os.getpid())).touch()
    # Otherwise the first worker may have run everything before the second one starts.
    while sum(path.name.isdigit() for path in seen.iterdir()) < 2:
        threading.Event().wait(0.01)
def test_fails():
    print("said by the one that fails")
    warnings.warn("mind the gap", UserWarning)
    assert 1 == 2, "one is not two"
@pytest.fixture(scope="session")
def shared():
    yield
    Path(os.environ["SEEN"], f"ended-{os.getpid()}").touch()
def test_shares(shared): ...
"""
_DYING = """
import os
def test_before(): ...
def test_dies(): os.kill(os.getpid(), 9)
def test_behind(): ...
"""
_HANGING = """
import threading, pytest
@pytest.mark.timeout(0.1, func_only=True)
def test_hangs(): threading.Event().wait()
def test_fine(): ...
"""
_LEAKING = """
import asyncio, socket, subprocess, threading
import pytest
kept, free = [], threading.Event()
def test_socket(): kept.append(socket.socket())
def test_garbage(): one = [socket.socket()]; one.append(one)
def test_process(): kept.append(subprocess.Popen(["sleep", "60"]))
def test_thread():
    kept.append(threading.Thread(target=free.wait, name="left behind", daemon=True))
    kept[-1].start()
def test_task():
    async def forget(): kept.append(asyncio.create_task(asyncio.sleep(60)))
    asyncio.run(forget())
def test_tidy():
    with socket.socket(): ...
    thread = threading.Thread(target=print); thread.start(); thread.join()
    subprocess.run(["true"])
    asyncio.run(asyncio.sleep(0))
@pytest.fixture(scope="module")
def shared():
    found = []
    yield found
    for one in found: one.close()
def test_shared(shared): shared.append(socket.socket())
def test_end(): [one.kill() for one in kept if hasattr(one, "kill")]; free.set()
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
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder), *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environ},
    )


_ALONE_AND_SPREAD = [(), ("--workers", "2")]


@pytest.mark.parametrize("options", _ALONE_AND_SPREAD, ids=["alone", "workers"])
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


@pytest.mark.parametrize("options", _ALONE_AND_SPREAD, ids=["alone", "workers"])
def test_skips_can_be_forbidden(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = _run(tmp_path, *options, files={"test_a.py": _SKIPPING}, OPERATOR_FORBID_SKIPS="1")
    assert done.returncode == 1, done.stdout
    assert "a skip is a failure" in done.stdout


@pytest.mark.parametrize("options", _ALONE_AND_SPREAD, ids=["alone", "workers"])
def test_what_is_left_to_other_commands_is_counted(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = _run(tmp_path, *options, files={"test_a.py": _MARKED})
    assert done.returncode == 0, done.stdout
    assert "    4  left to `make test-slow`" in done.stdout
    assert "    2  left to `make test-system`" in done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("chosen", "passed"),
    [("not slow", 4), ("slow", 4), ("system and not slow", 3), ("system or not slow", 5)],
)
def test_whoever_chooses_by_marks_gets_all_of_them(
    tmp_path: Path, chosen: str, passed: int
) -> None:
    done = _run(tmp_path, "-m", chosen, files={"test_a.py": _MARKED})
    assert f"{passed} passed" in done.stdout
    assert "left to" not in done.stdout


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


def test_workers_report_as_one_process_would(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    files = {f"test_{name}.py": _MIXED for name in "abcd"}
    environ = {"SEEN": str(tmp_path / "seen")}
    done = _run(tmp_path, "--workers", "2", "-rA", files=files, **environ)
    assert done.returncode == 1, done.stdout
    for name in "abcd":
        assert f"PASSED test_{name}.py::test_passes" in done.stdout
        assert f"FAILED test_{name}.py::test_fails - AssertionError: one is not two" in done.stdout
    assert done.stdout.count("Captured stdout call") == 8
    assert "UserWarning: mind the gap" in done.stdout
    assert "4 failed, 8 passed, 4 warnings" in done.stdout
    seen = {path.name for path in (tmp_path / "seen").iterdir()}
    pids = {name for name in seen if name.isdigit()}
    assert len(pids) == 2
    assert seen - pids == {f"ended-{pid}" for pid in pids}, "a fixture was not torn down"


def test_a_worker_that_dies_fails_its_tests_and_no_others(tmp_path: Path) -> None:
    files = {"test_a.py": _DYING, "test_b.py": "def test_fine(): ...", "test_c.py": _DYING}
    done = _run(tmp_path, "--workers", "2", files=files)
    assert "FAILED test_a.py::test_dies - the worker died in this test (exit -9)" in done.stdout
    assert "FAILED test_c.py::test_behind - not run: the worker died in" in done.stdout
    assert "4 failed, 3 passed" in done.stdout


def test_a_time_limit_fails_its_test_in_a_worker_and_no_other(tmp_path: Path) -> None:
    files = {f"test_{name}.py": _HANGING for name in "ab"}
    done = _run(tmp_path, "--workers", "2", "-p", "pytest_timeout", files=files)
    assert done.stdout.count("Failed: Timeout (>0.1s)") >= 2, done.stdout
    assert "2 failed, 2 passed" in done.stdout


def test_one_failure_may_end_the_run(tmp_path: Path) -> None:
    files = {f"test_{number}.py": "def test_no(): assert False" for number in range(30)}
    done = _run(tmp_path, "--workers", "2", "-x", files=files)
    assert "stopping after" in done.stdout
    assert done.stdout.count("FAILED") < 30
    assert done.returncode == 1


def test_what_a_test_leaves_open_fails_that_test(tmp_path: Path) -> None:
    kinds = ("pytest.PytestUnraisableExceptionWarning", "ResourceWarning")
    options = [word for kind in kinds for word in ("-W", f"error::{kind}")]
    done = _run(tmp_path, "-rA", *options, files={"test_a.py": _LEAKING})
    failed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("ERROR ")}
    leaks = ("garbage", "process", "socket", "task", "thread")
    assert failed == {f"test_a.py::test_{name}" for name in leaks}, done.stdout
    assert "left open: thread left behind" in done.stdout
    assert "(sleep 60)" in done.stdout
