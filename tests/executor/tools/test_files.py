"""Files are read in part, replaced whole, and put back exactly; no link leads anywhere."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Argument, Result
from operator_protocols.domain.category import FailureCategory
from operator_sre.executor.tools import replacement
from operator_sre.executor.tools.files import (
    ReadFile,
    RestoreFile,
    Rights,
    WriteFile,
    difference,
)
from operator_sre.executor.tools.registry import Registry
from operator_sre.executor.tools.replacement import (
    ABSENT,
    FILE_BYTES_MAX,
    Kept,
    Place,
    State,
    open_place,
)
from operator_sre.ledger.redaction import Redactor
from tests.executor.jobs import new_job
from tests.processes.waiting import names_in

pytestmark = pytest.mark.asyncio


@pytest.fixture
def files(tmp_path: Path) -> Registry:
    """The tools on a folder that may be written, with a home beside it."""
    place = f"{tmp_path}/etc/"
    (tmp_path / "etc").mkdir()
    rights = Rights(
        writable=lambda path: path.startswith(place), secret=lambda path: path.endswith(".key")
    )
    kept = Kept(tmp_path / "home" / "replaced")
    read = ReadFile(Redactor(bytes(32)).part, lambda path: not path.startswith(f"{tmp_path}/home/"))
    return Registry((read, WriteFile(rights, kept), RestoreFile(rights, kept)))


async def _call(files: Registry, tool: str, arguments: Mapping[str, Argument]) -> Result:
    return await files.get_tool(tool).call(arguments, new_job())


async def _write(files: Registry, path: Path, text: str, **more: str) -> Result:
    return await _call(files, "write_file", {"path": str(path), "text": text, **more})


async def _undo(files: Registry, result: Result) -> Result:
    assert result.undo is not None
    return await _call(files, result.undo.tool, result.undo.arguments)


async def test_a_part_is_read_and_the_rest_is_told(files: Registry, tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"0123456789")
    given: dict[str, Argument] = {"path": str(file), "offset": 2, "bytes_max": 3}
    result = await _call(files, "read_file", given)
    assert (result.ok, result.stdout, result.truncated) == (True, "234", True)
    assert (result.data["size_bytes"], result.data["end"], result.data["sha256"]) == (10, False, "")
    whole = await _call(files, "read_file", {"path": str(file)})
    assert whole.data["sha256"] == hashlib.sha256(b"0123456789").hexdigest()
    beyond = await _call(files, "read_file", {"path": str(file), "offset": 99})
    assert (beyond.ok, beyond.stdout, beyond.truncated) == (True, "", False)


async def test_what_is_no_text_is_read_all_the_same(files: Registry, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\x00\xff\xfeA")
    result = await _call(files, "read_file", {"path": str(tmp_path / "bytes")})
    assert (result.stdout, result.data["binary"]) == ("\x00\\xff\\xfeA", True)
    assert (await _call(files, "read_file", {"path": "/proc/version"})).stdout


async def test_no_link_is_followed_and_nothing_else_is_opened(
    files: Registry, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    os.mkfifo(tmp_path / "pipe")
    for name, why in {
        "link": "is a symbolic link: name its target instead.",
        "folder/file": "name the file itself.",
        "pipe": "is not a regular file.",
        "real": "is not a regular file.",
        "nobody": "No such file or directory.",
        "real/../real/file": "without '..'",
        "real//file": "without '..'",
    }.items():
        result = await _call(files, "read_file", {"path": f"{tmp_path}/{name}"})
        assert (result.ok, result.category is not None) == (False, True)
        assert why in result.stderr
    for path in ("etc/passwd", "/", "/etc/", "a\0b", "/a\0b", "/\ud800/x"):
        assert not (await _call(files, "read_file", {"path": path})).ok


async def test_a_file_is_replaced_and_put_back_exactly(files: Registry, tmp_path: Path) -> None:
    file = tmp_path / "etc" / "a.conf"
    file.write_bytes(b"old\xff\n")
    file.chmod(0o640)
    owner = (12345, 23456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)
    result = await _write(files, file, "new\n")
    assert result.ok, result
    assert "-old\\xff\n+new" in result.stdout
    assert file.read_text() == "new\n"
    found = file.stat()
    assert (stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)) == (0o640, owner)
    file.chmod(0o600)  # somebody's change of the mode is not one of the content
    back = await _undo(files, result)
    assert back.ok, back
    assert file.read_bytes() == b"old\xff\n"
    found = file.stat()
    assert (stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)) == (0o640, owner)
    assert (await _undo(files, back)).ok  # and the other way again
    assert file.read_text() == "new\n"
    assert names_in(file.parent) == ["a.conf"]


async def test_a_new_file_is_taken_away_again(files: Registry, tmp_path: Path) -> None:
    file = tmp_path / "etc" / "new"
    result = await _write(files, file, "x", expect_sha256=ABSENT)
    assert (result.ok, file.read_text()) == (True, "x")
    assert (await _undo(files, result)).ok
    assert not file.exists()


async def test_what_somebody_changed_since_is_left_alone(files: Registry, tmp_path: Path) -> None:
    file = tmp_path / "etc" / "a"
    file.write_text("one")
    result = await _write(files, file, "two")
    file.write_text("theirs")
    back = await _undo(files, result)
    assert (back.ok, file.read_text()) == (False, "theirs")
    assert "has changed since" in back.stderr
    stale = await _write(files, file, "mine", expect_sha256=hashlib.sha256(b"two").hexdigest())
    assert (stale.ok, file.read_text()) == (False, "theirs")


async def test_a_change_in_the_last_moment_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    with open_place(str(file)) as place:
        assert isinstance(place, Place)
        old = place.state()
        file.write_text("theirs")
        with pytest.raises(OSError, match="changed by another process"):
            place.put(State(b"mine"), old)
    assert (file.read_text(), names_in(tmp_path)) == ("theirs", ["a"])


async def test_the_same_text_changes_nothing(files: Registry, tmp_path: Path) -> None:
    file = tmp_path / "etc" / "a"
    file.write_text("same")
    before = file.stat()
    result = await _write(files, file, "same")
    assert (result.ok, result.undo, result.data["changed"]) == (True, None, False)
    after = file.stat()
    # Not when it was read last: that moves where a file system notes it.
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)


async def test_only_what_the_policy_names_is_written(files: Registry, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (tmp_path / "etc" / "link").symlink_to(outside)
    (tmp_path / "etc" / "folder").symlink_to(tmp_path)
    first = tmp_path / "etc" / "first"
    first.write_text("x")
    (tmp_path / "etc" / "second").hardlink_to(first)
    for name in ("outside", "etc/link", "etc/folder/outside", "etc/../outside", "etc", "etc/first"):
        result = await _call(files, "write_file", {"path": f"{tmp_path}/{name}", "text": "bad"})
        assert not result.ok, name
    assert "'paths: write'" in (await _write(files, outside, "bad")).stderr
    assert not outside.exists()
    assert first.read_text() == "x"
    backup = {"backup": "0" * 32, "expect_sha256": ABSENT}
    assert not (await _call(files, "restore_file", {"path": str(outside), **backup})).ok


async def test_sizes_are_bounded(files: Registry, tmp_path: Path) -> None:
    file = tmp_path / "etc" / "a"
    long = await _write(files, file, "x" * (FILE_BYTES_MAX + 1))
    assert (long.exit_code, long.category) == (2, FailureCategory.SYNTAX)
    wide = await _write(files, file, "ä" * FILE_BYTES_MAX)
    assert (wide.exit_code, wide.category) == (1, FailureCategory.RESOURCE)
    assert not file.exists()
    file.write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    assert "is larger than" in (await _write(files, file, "y")).stderr
    assert (await _call(files, "read_file", {"path": str(file), "bytes_max": 10**6})).exit_code == 2


async def test_people_see_the_difference_before_and_it_is_bound(
    files: Registry, tmp_path: Path
) -> None:
    file = tmp_path / "etc" / "a"
    file.write_text("listen 80\n")
    action = Action("write_file", {"path": str(file), "text": "listen 81\n"})
    found = await files.propose(action)
    assert isinstance(found, Action)
    assert "-listen 80\n+listen 81" in found.expected
    assert found.inferred == ("expect_sha256",)
    assert found.arguments["expect_sha256"] == hashlib.sha256(b"listen 80\n").hexdigest()
    file.write_text("listen 82\n")
    assert not (await _call(files, "write_file", found.arguments)).ok
    assert file.read_text() == "listen 82\n"


async def test_nothing_is_shown_of_what_may_not_be_seen(files: Registry, tmp_path: Path) -> None:
    for path in (tmp_path / "etc" / "a.key", tmp_path / "outside"):
        path.write_text("hunter2\n")
        found = await files.propose(Action("write_file", {"path": str(path), "text": "x"}))
        assert isinstance(found, Action)
        assert "hunter2" not in repr(found)
    result = await _write(files, tmp_path / "etc" / "a.key", "x")
    assert (result.ok, "hunter2" in result.stdout) == (True, False)


async def test_what_is_kept_is_private_bounded_and_of_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacement, "KEPT_MAX", 3)
    kept = Kept(tmp_path / "kept")
    ids = [kept.keep("/etc/a", State(str(number).encode())) for number in range(5)]
    assert len(list((tmp_path / "kept").iterdir())) == 3
    assert kept.load(ids[-1], "/etc/a").content == b"4"
    for file in [tmp_path / "kept", *(tmp_path / "kept").iterdir()]:
        assert file.stat().st_mode & 0o077 == 0
    for id, path in [(ids[0], "/etc/a"), (ids[-1], "/etc/b"), ("../x", "/etc/a"), ("", "/etc/a")]:
        with pytest.raises(OSError, match=r"backup"):
            kept.load(id, path)


async def test_a_difference_is_for_people_to_read() -> None:
    assert difference("/a", b"x\n", b"y\n") == "--- /a\n+++ /a\n@@ -1 +1 @@\n-x\n+y"
    assert difference("/a", b"\0", b"y").endswith("is not a text; it is replaced by 1 bytes.")
    many = b"".join(b"%d\n" % number for number in range(5000))
    assert difference("/a", many, b"y") == "/a: 5000 lines are replaced by 1 lines."
    some = b"".join(b"%d\n" % number for number in range(1000))
    assert difference("/a", some, b"y").endswith("(and more: 1004 lines in all)")
