"""The engine of the tests ends with whoever started it, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.docker_keeper import cgroup_of
from tests.engines.dockerd import (
    BUSYBOX,
    ROOT,
    Engine,
    EngineError,
    PrivateEngine,
    docker_engine,
    private_engine,
)
from tests.processes.waiting import eventually, gone

pytestmark = pytest.mark.system

STARTS = """
import sys
from tests.engines.dockerd import PrivateEngine
engine = PrivateEngine()
made = engine.run("sleep", "4711")
sys.stdout.write(f"{engine.problem or engine.socket}\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def _pids_with(word: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in words:
            found.append(int(folder.name))
    return found


def _owner() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STARTS],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.system(smoke=True)
def test_the_image_runs(pytestconfig: pytest.Config) -> None:
    engine = docker_engine(pytestconfig)
    assert isinstance(engine, Engine)
    made = engine.run("sh", "-c", "echo $((6 * 7)); sleep 1000")
    engine.hear(made, "42")
    assert engine.image.startswith(BUSYBOX)
    engine.clean()
    with pytest.raises(EngineError, match="404"):
        engine.inspect(made)


@pytest.mark.asyncio
async def test_nothing_is_left_of_one_whose_owner_was_killed(
    pytestconfig: pytest.Config,
) -> None:
    private_engine(pytestconfig).end()  # skips where none can be started
    owner = _owner()
    assert owner.stdout is not None
    assert owner.stdin is not None
    folder = Path(owner.stdout.readline().strip()).parent
    pids = _pids_with(str(folder))
    assert len(pids) >= 4, "unshare, the keeper, containerd and dockerd"
    owner.kill()
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()
    await eventually(lambda: gone(pids))
    await eventually(lambda: not folder.exists())
    assert _pids_with(str(folder)) == []
    assert list(Path("/sys/fs/cgroup").glob(f"*/{cgroup_of(folder)}")) == []


def test_one_that_was_killed_can_be_started_again(pytestconfig: pytest.Config) -> None:
    engine = private_engine(pytestconfig)
    try:
        assert isinstance(engine, PrivateEngine)
        engine.kill()
        with pytest.raises(OSError, match=r"refused|No such file"):
            engine.ask("GET", "/_ping")
        engine.start()
        assert engine.ask("GET", "/_ping") == b"OK"
    finally:
        engine.end()
