"""Volumes with a size: made, seen, and gone without a trace, also after kill -9 of everything."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from operator_lab import limits
from operator_lab.limits import drain, fill, is_full, mount_volumes, sized_volumes
from operator_lab.manifest import Manifest, Volumes, read_manifest
from operator_lab.ports import is_taken
from operator_lab.rig import Rig
from operator_protocols.domain.rig import RigSpec
from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_protocols.ports import Ability
from operator_sre.processes.identity import alive
from operator_sre.processes.mounts import mounts_below
from operator_sre.processes.supervision import read_state
from tests.lab.conftest import Up
from tests.lab.town import STORED, STORED_SLEEPER, VOLUME_MB, target_of, town_node
from tests.processes.waiting import eventually, names_in, processes_in

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="only root can mount for all to see")


def _homes(manifest: Manifest, directory: Path) -> list[Path]:
    return [directory, *map(Path, manifest.homes.values())]


def _processes(directory: Path) -> list[Process]:
    state = read_state(directory)
    assert state is not None
    children = [child.process for child in state.children if child.process is not None]
    return [state.supervisor, *children]


def _nothing_is_left(
    manifest: Manifest, directory: Path, processes: Iterable[Process] = ()
) -> bool:
    homes = _homes(manifest, directory)
    ports = [*manifest.ports.values(), *manifest.links.values()]
    return (
        mounts_below(homes) == []
        and not any(home.exists() for home in homes)
        and not any(alive(process) for process in processes)
        and not any(is_taken(port) for port in ports)
        and processes_in(directory) == []
    )


@needs_root
@pytest.mark.asyncio
async def test_a_volume_of_root_is_mounted_for_its_user_and_unmounted(up: Up) -> None:
    rig = await up(STORED, owned=False)
    manifest = rig.manifest()
    assert manifest.volumes is Volumes.MOUNTED
    places = {rig.layout().volume("ash"), rig.layout().volume("elm")}
    assert set(mounts_below(_homes(manifest, rig.directory))) == places
    for name in ("ash", "elm"):
        figures = os.statvfs(target_of(rig, name).data_dir)
        assert figures.f_blocks * figures.f_frsize == VOLUME_MB << 20
    assert (rig.layout().volume("elm") / "ready").stat().st_uid != 0
    await rig.fill("elm")
    assert rig.damage("elm") == {Ability.FILL}
    assert rig.damage("ash") == frozenset()
    await rig.down()
    assert _nothing_is_left(manifest, rig.directory)


@needs_root
@pytest.mark.asyncio
async def test_a_failed_start_unmounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A place of our own that anybody may enter, because others have homes in the usual one.
    homes = Path(tempfile.mkdtemp())
    homes.chmod(0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(homes))
    broken = replace(STORED_SLEEPER, name="fir", ready_argv=("false",), ready_s_max=0.3)
    with pytest.raises(RigError, match="'fir' did not answer"):
        await Rig.up(RigSpec("tiny", (*STORED.processes, broken)), tmp_path / "rig", owned=True)
    assert mounts_below([tmp_path]) == []
    assert names_in(tmp_path) == []
    assert mounts_below([homes]) == []
    homes.rmdir()  # which fails when anything is left


_MAKER = """
import asyncio, sys
from pathlib import Path
from operator_lab.rig import Rig
from tests.lab.town import STORED as SPEC
async def main():
    rig = await Rig.up(SPEC, Path(sys.argv[1]), owned=sys.argv[2] == "owned")
    await rig.cut("ash")
    await rig.fill("ash")
    await rig.occupy("ash")
    print("up", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


def _maker(directory: Path, how: str, *, script: str = _MAKER) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", script, str(directory), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"},
    )


@pytest.mark.asyncio
@pytest.mark.parametrize("then", ["down", "up"])
async def test_kill_nine_of_everything_leaves_nothing_to_the_next(
    tmp_path: Path, then: str
) -> None:
    directory = tmp_path / "rig"
    with _maker(directory, "detached") as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"up\n"
        manifest = read_manifest(directory)
        assert manifest is not None
        processes = _processes(directory)
        # Who supervises and who asked, at the same moment; the rest is left alone in the world.
        os.kill(processes[0].pid, signal.SIGKILL)
        maker.kill()
    await eventually(lambda: not alive(processes[0]))
    assert any(alive(process) for process in processes)
    assert len(mounts_below(_homes(manifest, directory))) == (2 if ROOT else 0)
    if then == "up":
        rig = await Rig.up(RigSpec("tiny", (town_node("ash"),)), directory, owned=True)
        assert mounts_below(_homes(manifest, directory)) == []
        assert not any(alive(process) for process in processes)
        assert not any(Path(home).exists() for home in manifest.homes.values())
        await rig.down()
    else:
        await Rig(directory).down()
    assert _nothing_is_left(manifest, directory, processes)


@pytest.mark.asyncio
async def test_an_owner_who_was_killed_leaves_no_mount_and_no_home(tmp_path: Path) -> None:
    directory = tmp_path / "rig"
    with _maker(directory, "owned") as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"up\n"
        manifest = read_manifest(directory)
        assert manifest is not None
        processes = _processes(directory)
        maker.kill()
    # Nobody may ever come to this directory again.
    await eventually(lambda: not any(alive(process) for process in processes))
    assert mounts_below(_homes(manifest, directory)) == []
    assert not any(Path(home).exists() for home in manifest.homes.values())
    await Rig(directory).down()
    assert _nothing_is_left(manifest, directory, processes)


_IMPATIENT = """
import asyncio, sys
from pathlib import Path
from operator_protocols.errors import RigError
from operator_lab import startup
from operator_lab.rig import Rig
from operator_sre.processes.control import Control
from tests.lab.town import STORED as SPEC
status = Control.status
async def late(self):
    await status(self)
    raise RigError("It answered too late.")
async def hang(directory):
    print("retiring", flush=True)
    await asyncio.Event().wait()
Control.status, startup.retire = late, hang
asyncio.run(Rig.up(SPEC, Path(sys.argv[1]), owned=True))
"""


@pytest.mark.asyncio
async def test_who_gave_up_on_a_slow_start_and_was_killed_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "rig"
    with _maker(directory, "owned", script=_IMPATIENT) as maker:
        assert maker.stdout is not None
        # What would have cleaned up after it is never done.
        assert maker.stdout.readline() == b"retiring\n"
        manifest = read_manifest(directory)
        assert manifest is not None
        maker.kill()
    await eventually(lambda: processes_in(directory) == [])
    await eventually(lambda: mounts_below(_homes(manifest, directory)) == [])
    assert not any(Path(home).exists() for home in manifest.homes.values())
    await Rig(directory).down()
    assert _nothing_is_left(manifest, directory)


@pytest.mark.asyncio
async def test_without_root_a_volume_is_private_to_the_rig(
    up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operator_lab.limits.is_root", lambda: False)
    spec = RigSpec("tiny", (town_node("ash", volume_mb=VOLUME_MB),))
    rig = await up(spec, owned=False)
    if why := rig.unable("ash", Ability.FILL):
        pytest.skip(why)
    manifest = rig.manifest()
    assert manifest.volumes is Volumes.PRIVATE
    assert mounts_below([rig.directory]) == []
    inside, outside = rig.layout().volume("ash"), Path(target_of(rig, "ash").data_dir)
    assert manifest.supervisor is not None
    assert str(outside) == f"/proc/{manifest.supervisor.pid}/root{inside}"
    await rig.fill("ash", left_bytes=1 << 20)
    assert rig.damage("ash") == {Ability.FILL}
    assert list(inside.iterdir()) == []
    assert [each.stat().st_size for each in outside.iterdir()] == [3 << 20]
    await rig.drain("ash")
    assert rig.damage("ash") == frozenset()
    await rig.down()
    assert _nothing_is_left(manifest, rig.directory)


@pytest.mark.asyncio
async def test_where_nothing_can_be_mounted_a_volume_is_a_directory(
    up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("operator_lab.limits.is_root", lambda: True)
    monkeypatch.setattr("operator_lab.limits.mount", refuse)
    rig = await up(RigSpec("tiny", (town_node("ash", volume_mb=VOLUME_MB),)))
    assert rig.manifest().volumes is Volumes.PLAIN
    why = rig.unable("ash", Ability.FILL)
    assert "nothing can be mounted here" in why
    with pytest.raises(RigError, match="nothing can be mounted here"):
        await rig.fill("ash")
    assert Path(target_of(rig, "ash").data_dir) == rig.layout().volume("ash")
    assert rig.damage("ash") == frozenset()


@pytest.mark.asyncio
async def test_what_has_no_size_is_never_mounted(up: Up) -> None:
    spec = replace(town_node("ash"), prepare=(("touch", "{volume}/a"),))
    rig = await up(RigSpec("tiny", (spec,)))
    assert sized_volumes(rig.layout()) == ()
    assert mount_volumes(rig.layout(), None, owned=True) == (Volumes.PLAIN, "")
    assert (Path(target_of(rig, "ash").data_dir) / "a").exists()


def test_a_filler_shrinks_and_goes(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    fill(tmp_path, left_bytes=free)
    drain(tmp_path)
    drain(tmp_path)
    assert not is_full(tmp_path)
    assert names_in(tmp_path) == []


def test_whoever_takes_the_room_first_helps_to_fill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand pages that seem to be free another has a hundred, whenever they are taken."""
    grow, page, filler = os.posix_fallocate, 4096, tmp_path / "scratch.bin"

    def contended(file: int, start: int, size: int) -> None:
        if start + size > 900 * page:
            raise OSError(errno.ENOSPC, "No space left on device")
        grow(file, start, size)

    monkeypatch.setattr(os, "posix_fallocate", contended)
    monkeypatch.setattr(limits, "_free_bytes", lambda _: 1000 * page - filler.stat().st_size)
    fill(tmp_path, left_bytes=0)
    assert 890 * page < filler.stat().st_size <= 900 * page


def test_what_is_not_about_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(file: int, start: int, size: int) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    figures = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", refused)
    with pytest.raises(PermissionError):
        fill(tmp_path, left_bytes=figures.f_bavail * figures.f_frsize // 2)
