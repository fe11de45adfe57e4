"""Whether a rig dies with the process that brought it up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from operator_lab.manifest import read_manifest
from operator_lab.rig import Rig, RunState
from tests.lab.conftest import Up
from tests.processes.waiting import eventually, processes_in

_KILLED = """
import asyncio, sys
from pathlib import Path
from operator_lab.rig import Rig
from tests.lab.conftest import rig_spec
async def main():
    rig = await Rig.up(rig_spec(1), Path(sys.argv[1]), owned=sys.argv[2] == "owned")
    print("up", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


def _owner(directory: Path, how: str) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(directory), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"},
    )


@pytest.mark.asyncio
async def test_an_owned_rig_dies_with_its_killed_owner(up: Up, tmp_path: Path) -> None:
    with _owner(tmp_path / "rig", "owned") as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        owner.kill()
    manifest = read_manifest(tmp_path / "rig")
    assert manifest is not None
    await eventually(lambda: not manifest.live)
    assert processes_in(tmp_path) == []
    # Its directory is found dead by the next one.
    await up()


@pytest.mark.asyncio
async def test_the_other_kind_outlives_its_killed_starter(tmp_path: Path) -> None:
    with _owner(tmp_path / "rig", "detached") as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        owner.kill()
    rig = Rig.attach(tmp_path / "rig")
    await rig.restart("node-1")
    assert all(each.state is RunState.RUNNING for each in rig.status().processes)
    await rig.down()
