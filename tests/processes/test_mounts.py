"""File systems in memory: of their size, of their owner, and gone when they should be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from operator_protocols.domain.target import Process
from operator_sre.processes import mounts
from operator_sre.processes.identity import process_of
from operator_sre.processes.mounts import (
    enter_namespace,
    mount,
    mounts_below,
    unmount_below,
    unmount_orphans,
)
from operator_sre.processes.supervision import Volume, read_orders, write_orders

_INSIDE = """
import os, sys
from operator_sre.processes.mounts import enter_namespace
from operator_sre.processes.supervision import Volume
who = os.geteuid()
why = enter_namespace([Volume(sys.argv[1], 1 << 20)])
if why:
    sys.exit(why)
figures = os.statvfs(sys.argv[1])
assert figures.f_blocks * figures.f_frsize == 1 << 20
assert os.geteuid() == os.stat(sys.argv[1]).st_uid == who
with open(sys.argv[1] + "/file", "wb") as file:
    try:
        file.write(bytes(2 << 20))
        file.flush()
    except OSError as problem:
        print(problem.strerror, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount for all to see")
def test_a_mount_is_seen_by_all_and_unmounted_with_what_lies_below(tmp_path: Path) -> None:
    outer = tmp_path / "with space"
    outer.mkdir()
    mount(Volume(str(outer), 1 << 20), uid=65534, gid=65534)
    (outer / "inner").mkdir()
    mount(Volume(str(outer / "inner"), 1 << 20), uid=0, gid=0)
    assert mounts_below([tmp_path]) == [outer / "inner", outer]
    assert mounts_below([tmp_path / "with"]) == []
    assert outer.stat().st_uid == 65534
    assert outer.stat().st_mode & 0o777 == 0o700
    unmount_below([tmp_path])
    assert mounts_below([tmp_path]) == []
    unmount_below([tmp_path])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount for all to see")
def test_a_mount_that_another_process_unmounts_first_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "first", tmp_path / "second"]
    for place in places:
        place.mkdir()
        mount(Volume(str(place), 1 << 20), uid=0, gid=0)
    unmount = mounts._call

    def unmount_twice(function: str, *arguments: str | bytes | int | None) -> None:
        unmount(function, *arguments)
        unmount(function, *arguments)

    monkeypatch.setattr(mounts, "_call", unmount_twice)
    unmount_below(iter([tmp_path]))
    assert mounts_below([tmp_path]) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount for all to see")
def test_a_mount_that_stays_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount(Volume(str(tmp_path), 1 << 20), uid=0, gid=0)

    def refuse(function: str, *arguments: str | bytes | int | None) -> None:
        raise PermissionError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(mounts, "_call", refuse)
        with pytest.raises(PermissionError):
            unmount_below([tmp_path])
    unmount_below([tmp_path])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount for all to see")
def test_what_belonged_to_somebody_who_is_gone_is_unmounted(tmp_path: Path) -> None:
    me = process_of(os.getpid())
    assert me is not None
    owners = {"mine": me, "gone": Process(me.pid, me.started - 60.0), "nobody's": None}
    for name, owner in owners.items():
        (tmp_path / name).mkdir()
        mount(Volume(str(tmp_path / name), 1 << 20), uid=0, gid=0, owner=owner)
    unmount_orphans()
    assert {place.name for place in mounts_below([tmp_path])} == {"mine", "nobody's"}
    unmount_below([tmp_path])


def test_what_cannot_be_mounted_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No such file|not permitted"):
        mount(Volume(str(tmp_path / "nowhere"), 1 << 20), uid=0, gid=0)


_REFUSED = """
import os, sys
before = os.readlink("/proc/self/ns/mnt")
why = enter_namespace([Volume(sys.argv[1], 1 << 20)])
assert "may not mount" in why, why
assert os.readlink("/proc/self/ns/mnt") == before
"""


def test_a_namespace_that_cannot_be_had_changes_nothing(tmp_path: Path) -> None:
    # In a process of its own, because it forks.
    imports = (
        f"from {enter_namespace.__module__} import enter_namespace\n"
        f"from {Volume.__module__} import Volume\n"
    )
    words = [sys.executable, "-c", imports + _REFUSED, str(tmp_path / "nowhere")]
    assert subprocess.run(words, check=False).returncode == 0


def test_a_private_mount_is_seen_by_its_maker_alone_and_dies_with_it(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _INSIDE, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as inside:
        assert inside.stdout is not None
        said = inside.stdout.readline()
        if not said:
            pytest.skip("this user may not have a namespace")
        assert said == b"No space left on device\n"
        assert list(tmp_path.iterdir()) == []
        assert mounts_below([tmp_path]) == []
        seen = Path(f"/proc/{inside.pid}/root{tmp_path}")
        assert [each.name for each in seen.iterdir()] == ["file"]
        inside.kill()
    assert list(tmp_path.iterdir()) == []


def test_orders_with_volumes_survive_the_file(tmp_path: Path) -> None:
    volume = Volume("/a", 5)
    write_orders(tmp_path, [], volumes=[volume], removes=["/b"])
    orders = read_orders(tmp_path)
    assert (orders.volumes, orders.removes) == ((volume,), ("/b",))
