"""Groups are made where they can be, hold what they should, and are removed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from operator_sre.executor.sandbox import Limits
from operator_sre.executor.sandbox.cgroup import (
    OWN_PROCESSES,
    PREFIX,
    BoxGroup,
    Cgroup,
    Cgroups,
    MemoryWatch,
)
from operator_sre.processes.identity import process_of
from tests.processes.waiting import eventually, gone


def tree(root: Path, *, own: str) -> Cgroups:
    """A folder that looks like the second version's, because two versions cannot be had at once."""
    for folder in (root, *(root / own.strip("/")).parents, root / own.strip("/")):
        if root in (folder, *folder.parents):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.procs").touch()
            (folder / "cgroup.controllers").write_text("cpu memory pids")
            (folder / "cgroup.subtree_control").write_text("cpu memory pids")
    (root.parent / "own").write_text(f"0::{own}\n")
    return Cgroups(root, root.parent / "own")


def files_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel fills a new group with files; a folder must be filled."""
    made = Path.mkdir

    def mkdir(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        made(self, mode, parents, exist_ok)
        names = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max")
        for name in (*names, "cgroup.procs", "cgroup.subtree_control"):
            (self / name).touch()

    monkeypatch.setattr(Path, "mkdir", mkdir)


def test_the_second_version_limits_all_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = tree(tmp_path / "root", own="/user.slice/operator.service")
    files_of(monkeypatch)
    group = groups.make("one", Limits(memory_bytes=1000, processes=7))
    assert group is not None
    (folder,) = group.folders
    assert folder.name == f"{PREFIX}one"
    assert folder.parent.parent == tmp_path / "root" / "user.slice" / "operator.service"
    assert (folder / "memory.max").read_text() == "1000"
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == str(7 + OWN_PROCESSES)
    assert (folder / "cpu.max").read_text() == "100000 100000"
    assert group.take(7)
    assert (folder / "cgroup.procs").read_text() == "7"


def test_where_none_can_be_made_there_is_none(tmp_path: Path) -> None:
    assert Cgroups(tmp_path / "nothing").make("one", Limits()) is None
    # No file of the kernel's appears in a plain folder, and none is made up.
    assert tree(tmp_path / "root", own="/a").make("one", Limits()) is None
    assert not list((tmp_path / "root").rglob(f"{PREFIX}*"))


@pytest.mark.parametrize(
    ("name", "text", "killed"),
    [
        ("memory.events", "low 0\noom 1\noom_kill 1\n", True),
        ("memory.events", "low 0\noom 0\noom_kill 0\n", False),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", True),
        ("other", "", False),
    ],
)
def test_whom_the_kernel_ended_is_seen(tmp_path: Path, name: str, text: str, killed: bool) -> None:
    (tmp_path / name).write_text(text)
    assert Cgroup((tmp_path,)).killed_for_memory() is killed


@pytest.mark.asyncio
async def test_a_real_group_ends_its_members_and_goes() -> None:
    group = Cgroups().make(f"test-{os.getpid()}", Limits())
    if group is None:
        pytest.skip("this user can make no cgroup on this machine")
    member = await asyncio.create_subprocess_exec("sleep", "99")
    assert group.take(member.pid)
    assert str(member.pid) in (group.folders[0] / "cgroup.procs").read_text().split()
    assert not group.take(2**22 + 1), "there is nobody of that number"
    assert not group.killed_for_memory()
    assert await group.remove()
    assert await asyncio.wait_for(member.wait(), 20) == -9
    assert not [folder for folder in group.folders if folder.exists()]


def test_what_was_left_long_ago_is_swept(tmp_path: Path) -> None:
    groups = tree(tmp_path / "root", own="/a")
    parent = tmp_path / "root" / "a" / "operator-sre"
    parent.mkdir()
    (parent / "cgroup.subtree_control").write_text("cpu memory pids")
    old, new, other = (parent / name for name in (f"{PREFIX}old", f"{PREFIX}new", "other"))
    for folder in (old, new, other):
        folder.mkdir()
    os.utime(old, (1, 1))
    os.utime(other, (1, 1))
    groups.sweep()
    assert sorted(path.name for path in parent.iterdir() if path.is_dir()) == [new.name, "other"]


def test_whether_a_group_can_be_made_is_found_out_once(tmp_path: Path) -> None:
    assert not Cgroups(tmp_path / "nothing").usable()
    real = Cgroups()
    group = real.make(f"test-usable-{os.getpid()}", Limits())
    assert real.usable() is (group is not None)
    for folder in group.folders if group else ():
        folder.rmdir()


@pytest.mark.asyncio
async def test_a_tree_that_grows_meanwhile_enters_whole() -> None:
    """Each process forks another one; whoever is born while its parent enters enters as well."""
    if not Cgroups().usable():
        pytest.skip("this user can make no cgroup on this machine")
    limits, watch = Limits(), MemoryWatch(1 << 40)
    grouping = BoxGroup(Cgroups(), f"test-grow-{os.getpid()}", limits, watch)
    grow = "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & sleep 60 & }; wait; }; f 12"
    root = await asyncio.create_subprocess_exec("bash", "-c", grow)
    process = process_of(root.pid)
    assert process is not None
    grouping.begin(process)
    grouping.begin(process)
    await eventually(lambda: len(list(watch.tree(root.pid))) >= 24)
    members = list(watch.tree(root.pid))
    await grouping.end()
    assert not grouping.used_up
    assert gone(members)
    await root.wait()
