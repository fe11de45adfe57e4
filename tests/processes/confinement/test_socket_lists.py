"""`ss -p` shows the sockets of all processes, and does not ask the guard about other files."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_sre.enforcement import why_not_confined
from operator_sre.processes.confinement import socket_lists
from operator_sre.processes.confinement.socket_lists import SocketLists
from operator_sre.processes.runner.wire import Bounds
from tests.processes.confinement.test_confined import Runs
from tests.processes.runners import end_runner

needs_walls = pytest.mark.skipif(bool(why_not_confined()), reason=why_not_confined() or "-")
needs_ss = pytest.mark.skipif(shutil.which("ss") is None, reason="there is no ss")
PROCESSES = Bounds(abilities=("processes",))
FILES = 40


@pytest_asyncio.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runs]:
    made = Runs(tmp_path / "runner")
    yield made
    await made.client.dismiss()
    end_runner(made.folder, signal.SIGKILL)


@pytest.fixture
def many_files() -> Iterator[list[int]]:
    """So many open files that this process is worth a listing."""
    # A worker has sockets of its own, and a process of mostly sockets gets no listing.
    more = len(list(Path("/proc/self/fd").iterdir()))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(FILES + more)]
    yield opened
    for fd in opened:
        os.close(fd)


def _output_of(line: str) -> bytes:
    return subprocess.run(["/bin/bash", "-c", line], capture_output=True, check=True).stdout


@needs_walls
@needs_ss
@pytest.mark.usefixtures("many_files")
@pytest.mark.asyncio
async def test_ss_shows_the_process_of_each_socket(runs: Runs) -> None:
    """Twice, because listings are kept, and a socket may have come meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as later:
        later.bind(("127.0.0.1", 0))
        ports = f"sport = :{server.getsockname()[1]} or sport = :{later.getsockname()[1]}"
        for _ in range(2):
            free = _output_of(f"ss -Htlnp '{ports}'")
            assert (await runs(f"ss -Htlnp '{ports}'", PROCESSES)).stdout == free
            assert f"pid={os.getpid()},fd={server.fileno()}".encode() in free
            later.listen()
        assert f"fd={later.fileno()}".encode() in free
        plain = await runs(f"ss -Htlnp '{ports}'")
        assert b"pid=" not in plain.stdout


@needs_walls
@pytest.mark.asyncio
async def test_other_programs_list_all_files(runs: Runs, many_files: list[int]) -> None:
    done = await runs(f"ls /proc/{os.getpid()}/fd", PROCESSES)
    assert set(map(str, many_files)) <= set(done.stdout.decode().split())


@needs_walls
@pytest.mark.asyncio
async def test_an_open_file_is_known_and_the_files_of_others_are_not(runs: Runs) -> None:
    """A flag that asks about an open file opens nothing else."""
    program = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True);"
        "buffer = ctypes.create_string_buffer(256); empty = 0x1000;"
        "print(os.fstat(0).st_mode > 0);"
        f"path = b'/proc/{os.getppid()}/fd/0';"
        "print(libc.fstatat(-100, path, buffer, empty), ctypes.get_errno())"
    )
    done = await runs("", PROCESSES, sys.executable, "-I", "-S", "-c", program)
    assert done.stdout.decode().splitlines() == ["True", "-1 13"], done.stderr


def _open(lists: SocketLists, path: str) -> list[str] | None:
    fd = lists.open(os.getpid(), path)
    if fd is None:
        return None
    try:
        return [entry.name for entry in os.scandir(fd)]
    finally:
        os.close(fd)


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SocketLists:
    """As this program gets them, as if it was `ss`."""
    monkeypatch.setattr(socket_lists, "PROGRAMS", (Path("/proc/self/exe").readlink().name,))
    (tmp_path / "shm").mkdir()
    return SocketLists(tmp_path / "runner", tmp_path / "shm")


@pytest.mark.usefixtures("many_files")
def test_a_listing_has_what_is_a_socket_now(lists: SocketLists, tmp_path: Path) -> None:
    with socket.socket() as first:
        seen = _open(lists, "/proc/self/fd")
        assert seen is not None
        assert f"{first.fileno()}" in seen
        with socket.socket() as second:
            assert {f"{second.fileno()}", *seen} == {*(_open(lists, "/proc/self/fd") or ())}
        assert sorted(seen) == sorted(_open(lists, "/proc/self/fd") or ())
        pids = _open(lists, "/proc")
        assert pids is None or f"{os.getpid()}" in pids
    assert _open(lists, "/proc/self/task") is None
    assert _open(lists, "/proc/0/fd") is None
    lists.close()
    assert not [*(tmp_path / "shm").iterdir()]


@pytest.mark.usefixtures("many_files")
def test_old_listings_make_room(
    lists: SocketLists, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A listing has the sockets of this process, which has more in a worker than alone.
    ours = _open(lists, "/proc/self/fd")
    assert ours is not None
    names_max = 4 * (len(ours) + 9)
    monkeypatch.setattr(socket_lists, "NAMES_MAX", names_max)
    opened = [socket.socket()]
    try:
        for _ in range(7):
            _open(lists, "/proc/self/fd")
            opened.append(socket.socket())
        listed = _open(lists, "/proc/self/fd")
        assert str(opened[-1].fileno()) in (listed or ())
        names = sum(len(files) for _, _, files in os.walk(tmp_path / "shm"))
        assert 0 < names <= names_max
    finally:
        for each in opened:
            each.close()


@pytest.mark.usefixtures("many_files")
def test_a_place_that_others_can_write_is_not_used(lists: SocketLists, tmp_path: Path) -> None:
    assert _open(lists, "/proc/self/fd") is not None
    (left,) = (tmp_path / "shm").iterdir()
    again = SocketLists(tmp_path / "runner", tmp_path / "shm")
    assert not left.exists()  # what a killed runner leaves is removed
    (tmp_path / "elsewhere").mkdir()
    left.symlink_to(tmp_path / "elsewhere")
    assert _open(again, "/proc/self/fd") is None
    left.unlink()
    left.mkdir()
    left.chmod(0o777)
    assert _open(again, "/proc/self/fd") is None
    assert not [*left.iterdir(), *(tmp_path / "elsewhere").iterdir()]
    missing = SocketLists(tmp_path / "runner", tmp_path / "no")
    assert _open(missing, "/proc/self/fd") is None
