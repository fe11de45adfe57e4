"""A confined command does what it is for: it reads, speaks to whom it may, and ends as it would."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_sre.enforcement import why_not_confined
from operator_sre.processes.confinement.call import Call, RefusedError, to_signed
from operator_sre.processes.confinement.calls import LAST, NUMBERS, machine_index
from operator_sre.processes.confinement.cell import CAPABILITIES, Command, Limits, Walls, Zygote
from operator_sre.processes.confinement.cells import (
    Cells,
    Usage,
    free_bytes,
    needs_read_search,
    usage_of,
)
from operator_sre.processes.confinement.connections import Connections, Reach, _resolvers
from operator_sre.processes.confinement.filters import Profile, filter_program
from operator_sre.processes.confinement.guard import BLOCKED_MAX, Guard
from operator_sre.processes.confinement.landlock import Reads, writes_ruleset
from operator_sre.processes.runner.client import RunnerClient
from operator_sre.processes.runner.keeper import walls_of
from operator_sre.processes.runner.places import LOG
from operator_sre.processes.runner.wire import Bounds, Done, Order
from tests.processes.runners import end_runner, runner_of

pytestmark = pytest.mark.skipif(bool(why_not_confined()), reason=why_not_confined() or "-")
PATH = b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


async def _nowhere(path: str) -> None:
    """No socket is led elsewhere."""


class Runs:
    """Runs commands in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = RunnerClient(folder)

    async def __call__(
        self, line: str = "", bounds: Bounds | None = None, *words: str, timeout_s: float = 20.0
    ) -> Done:
        argv = words or ("/bin/bash", "-c", line)
        return await self.client.run(
            Order(
                id=secrets.token_hex(8),
                argv=tuple(map(os.fsencode, argv)),
                env=(PATH,),
                cwd=b"/",
                timeout_s=timeout_s,
                grace_s=0.2,
                ends_left=True,
                bounds=bounds or Bounds(),
            )
        )


@pytest_asyncio.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runs]:
    folder = tmp_path / "runner"
    made = Runs(folder)
    yield made
    await made.client.dismiss()
    end_runner(folder, signal.SIGKILL)


@pytest.mark.asyncio
async def test_output_and_exit_code_are_those_of_the_command(runs: Runs) -> None:
    done = await runs("echo out; echo err >&2; exit 7")
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert done.blocked == ()


@pytest.mark.asyncio
async def test_what_cannot_start_says_so(runs: Runs) -> None:
    missing = await runs("", None, "/no/such/program")
    assert (missing.errno, missing.error) == (errno.ENOENT, "/no/such/program: command not found")
    folder = await runs("", None, "/")
    assert folder.errno == errno.EACCES


@pytest.mark.asyncio
async def test_signals_and_limits_end_it(runs: Runs) -> None:
    assert (await runs("kill -9 $$")).exit_code == -signal.SIGKILL
    late = await runs("sleep 60", timeout_s=0.3)
    assert late.timed_out


SENSELESS = """
import ctypes, os
call, huge = ctypes.CDLL(None).syscall, ctypes.c_long(1 << 31)
own = os.pidfd_open(os.getpid())
for _ in range(100): call(NUMBER, own, huge, None, 0)
print("done")
"""


@pytest.mark.asyncio
async def test_numbers_that_make_no_sense_do_not_fill_the_log(runs: Runs) -> None:
    number = NUMBERS["pidfd_send_signal"][machine_index() or 0]
    text = SENSELESS.replace("NUMBER", str(number))
    done = await runs("", None, sys.executable, "-I", "-S", "-c", text)
    assert (done.exit_code, done.stdout) == (0, b"done\n"), done.stderr
    assert "cannot decide" not in (runs.folder / LOG).read_text()


@pytest.mark.asyncio
async def test_it_writes_in_a_folder_of_its_own_that_goes(runs: Runs) -> None:
    done = await runs('echo kept > "$TMPDIR/x"; cat "$TMPDIR/x"; echo "$TMPDIR"')
    kept, folder = done.stdout.decode().split()
    assert kept == "kept"
    assert folder.startswith(str(runs.folder))
    await runs("true")  # it is removed when there is time for it
    assert not Path(folder).exists()


@pytest.mark.asyncio
async def test_odd_arguments_of_calls_mean_what_they_mean_to_the_kernel(runs: Runs) -> None:
    program = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True);"
        "path = os.fsencode(os.environ['TMPDIR'] + '/x');"
        "new = libc.open(path, os.O_CREAT | os.O_WRONLY, ctypes.c_uint(0xFFFFFFFF));"
        "print(new >= 0, oct(os.stat(path).st_mode & 0o777));"
        "print(libc.flock(new, ctypes.c_uint(0xFFFFFFFF)), os.strerror(ctypes.get_errno()))"
    )
    done = await runs("", None, sys.executable, "-I", "-S", "-c", program)
    assert done.stdout.decode().splitlines() == ["True 0o755", "0 Success"], done.stderr


@pytest.mark.asyncio
async def test_what_it_tried_is_reported(runs: Runs, tmp_path: Path) -> None:
    target = tmp_path / "x"
    done = await runs(f"echo x > {target}; chmod 600 /etc/hostname; kill -9 {os.getpid()}; true")
    assert done.exit_code == 0
    assert done.blocked[0] == f"write to {target}"
    assert "change of the metadata of /etc/hostname" in done.blocked
    assert f"SIGKILL to process {os.getpid()}" in done.blocked
    assert not target.exists()


@pytest.mark.asyncio
async def test_what_could_not_be_done_anyway_is_no_miss(runs: Runs, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    done = await runs(f"mkdir {kept}; rmdir {tmp_path}/gone; rm {tmp_path}/gone; ln -sT x {kept}")
    assert done.stderr.count(b"File exists") == 2
    assert done.stderr.count(b"No such file") == 2
    assert done.blocked == ()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A disk, which is a file in truth."""
    image = tmp_path / "image"
    image.write_bytes(secrets.token_bytes(65_536))
    made = subprocess.run(["losetup", "-f", "--show", image], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip("only root makes disks, and not everywhere")
    name = made.stdout.strip()
    yield name
    subprocess.run(["losetup", "-d", name], check=True)


@pytest.mark.asyncio
async def test_disks_are_read_by_their_programs_only(runs: Runs, disk: str) -> None:
    held = Bounds(programs=("head",), abilities=("disks",))
    read = await runs(f"head -c 512 {disk} | wc -c; head -c 512 /dev/../{disk} | wc -c", held)
    assert read.stdout.split() == [b"512", b"512"], read.stderr
    other = await runs(f"cat {disk} | head -c 1 | wc -c", held)
    assert other.stdout == b"0\n"
    copied = await runs(f'cp /usr/bin/cat "$TMPDIR/head" && "$TMPDIR/head" {disk} | wc -c', held)
    assert copied.stdout in (b"0\n", b"")
    plain = await runs(f"head -c 512 {disk} | wc -c")
    assert plain.stdout == b"0\n"


@pytest.mark.asyncio
async def test_disks_are_never_written(runs: Runs, disk: str) -> None:
    held = Bounds(programs=("bash", "dd", "tee"), abilities=("disks",))
    lines = (f": 1<>{disk}", f": >>{disk}", f"dd of={disk} count=0 conv=notrunc", f"tee -a {disk}")
    for line in lines:
        done = await runs(f"{line} </dev/null", held)
        assert b"Read-only file system" in done.stderr, line


@pytest.mark.asyncio
async def test_only_declared_hosts_are_reached(runs: Runs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"
        allowed = await runs(line, Bounds(hosts=(f"localhost:{port}",)))
        assert allowed.stdout == b"connected\n", allowed.stderr
        other = await runs(line, Bounds(hosts=(f"127.0.0.1:{port - 1}",)))
        assert (other.stdout, other.blocked) == (b"", (f"connection to 127.0.0.1:{port}",))
        anywhere = await runs(line, Bounds(hosts=None))
        assert anywhere.stdout == b"connected\n"
        none = await runs(line)
        assert (none.stdout, none.blocked) == (b"", ("network socket",))


@pytest.mark.asyncio
async def test_a_name_server_is_reached_unless_names_are_not_for_a_command(runs: Runs) -> None:
    """The connection of a datagram socket sends nothing."""
    server = min(_resolvers())
    family = "AF_INET6" if ":" in server else "AF_INET"
    program = (
        f"import socket; line = socket.socket(socket.{family}, socket.SOCK_DGRAM);"
        f"line.connect(({server!r}, 53)); print('connected')"
    )
    words = (sys.executable, "-I", "-S", "-c", program)
    free = await asyncio.to_thread(subprocess.run, words, capture_output=True)
    if free.returncode != 0:
        pytest.skip("there is no way to a name server")
    hosts = ("127.0.0.1:1",)
    allowed = await runs("", Bounds(hosts=hosts), *words)
    assert allowed.stdout == b"connected\n", allowed.stderr
    refused = await runs("", Bounds(hosts=hosts, resolves=False), *words)
    assert (refused.exit_code, refused.stdout) == (1, b"")


@pytest.mark.asyncio
async def test_only_declared_sockets_are_reached_and_only_by_their_program(
    runs: Runs, tmp_path: Path
) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        line = f"curl -s -m 0.2 --unix-socket {path} http://x/ >&2; echo $?"
        late = b"28\n"  # curl connected, and nobody answered
        declared = Bounds(sockets=(path,), programs=("curl",))
        assert (await runs(line, declared)).stdout == late
        as_pattern = Bounds(sockets=(f"{tmp_path}/*",), programs=("curl",))
        assert (await runs(line, as_pattern)).stdout == late
        for refused in (Bounds(), Bounds(sockets=(path,), programs=("psql",))):
            done = await runs(line, refused)
            assert (done.stdout, done.blocked) == (b"7\n", (f"connection to the socket {path}",))
        copy = line.replace("curl", 'cp "$(command -v curl)" "$TMPDIR/curl"; "$TMPDIR/curl"', 1)
        done = await runs(copy, declared)
        assert (done.stdout, done.blocked) == (b"7\n", (f"connection to the socket {path}",))


@pytest.mark.asyncio
async def test_hidden_files_cannot_be_read_and_new_ones_beside_them_can(
    runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("word")
    bounds = Bounds(hidden=(str(tmp_path / "secret"),))
    assert (await runs(f"cat {tmp_path}/secret", bounds)).stdout == b""
    for number in range(3):
        (tmp_path / f"new{number}").write_text(f"{number}")
        done = await runs(f"cat {tmp_path}/new{number}", bounds)
        assert done.stdout == f"{number}".encode(), done.stderr


@pytest.mark.asyncio
async def test_a_part_of_what_is_hidden_can_be_shown(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "home" / "lab").mkdir(parents=True)
    (tmp_path / "home" / "key").write_text("word")
    (tmp_path / "home" / "lab" / "log").write_text("line")
    bounds = Bounds(hidden=(f"{tmp_path}/home",), shown=(f"{tmp_path}/home/lab",))
    done = await runs(f"cat {tmp_path}/home/lab/log {tmp_path}/home/key", bounds)
    assert done.stdout == b"line"


@pytest.mark.asyncio
async def test_open_files_of_other_processes_are_shown_where_that_is_declared(runs: Runs) -> None:
    line = f"readlink /proc/{os.getpid()}/exe"
    plain = await runs(line)
    assert plain.stdout == b""
    shown = await runs(line, Bounds(abilities=("processes",)))
    assert shown.stdout.decode().strip() == os.path.realpath(f"/proc/{os.getpid()}/exe")


@pytest.mark.asyncio
async def test_an_approved_command_writes_but_not_to_what_is_hidden(
    runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "home" / "lab").mkdir(parents=True)
    (tmp_path / "home" / "key").write_text("word")
    (tmp_path / "key").write_text("word")
    hidden = (f"{tmp_path}/home", f"{tmp_path}/key")
    bounds = Bounds(hidden=hidden, shown=(f"{tmp_path}/home/lab",), writable=None, hosts=None)
    line = f"cd {tmp_path}; echo x > y; echo x > home/z; echo x > home/lab/w; cat home/key key"
    done = await runs(line, bounds)
    assert done.stdout == b""
    assert (tmp_path / "y").read_text() == (tmp_path / "home" / "lab" / "w").read_text() == "x\n"
    assert not (tmp_path / "home" / "z").exists()
    assert (tmp_path / "key").read_text() == "word"


@pytest.mark.asyncio
async def test_cells_that_wait_are_not_taken_for_what_a_command_left(runs: Runs) -> None:
    for _ in range(8):
        done = await runs("true")
        assert done.left == ()
    done = await runs("sleep 60 & disown; echo x")
    assert [one.name for one in done.left] in (["sleep"], [""])  # it may have ended meanwhile


@pytest.mark.asyncio
async def test_a_killed_zygote_is_replaced(runs: Runs) -> None:
    assert (await runs("true")).exit_code == 0
    runner = runner_of(runs.folder)
    assert runner is not None
    for pid in map(int, Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()):
        os.kill(pid, signal.SIGKILL)
    codes = [(await runs("true")).exit_code for _ in range(6)]
    assert codes[-1] == 0
    assert codes.count(0) >= 3


@pytest.mark.asyncio
async def test_several_run_at_once(runs: Runs) -> None:
    done = await asyncio.gather(*(runs(f"echo {number} | cat") for number in range(12)))
    assert [one.stdout for one in done] == [f"{number}\n".encode() for number in range(12)]


def test_filters_are_programs_for_every_machine() -> None:
    for column in range(2):
        sizes = {
            len(filter_program(Profile(network=n, processes=p), column))
            for n in (False, True)
            for p in (False, True)
        }
        assert all(size % 8 == 0 and size < 4096 * 8 for size in sizes)
        assert len(sizes) > 1
    assert all(number is None or number <= LAST for pair in NUMBERS.values() for number in pair)
    assert machine_index("riscv64") is None


def test_walls_follow_from_bounds() -> None:
    order = Order("x", (b"x",), (), b"/", 1.0, 1.0, bounds=Bounds())
    assert walls_of(order) == Walls(limits=Limits())
    approved = Order("x", (b"x",), (), b"/", 1.0, 1.0, bounds=Bounds(writable=None))
    assert walls_of(approved).profile is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root has capabilities to keep")
def test_root_keeps_the_right_to_read_only_where_it_is_needed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.write_text("x")
    os.chown(closed, 12_345, 12_345)
    closed.chmod(0o600)
    assert needs_read_search((str(closed),), "/")
    assert not needs_read_search(("/etc/hostname", "/no/such/file"), "/")
    reading = Order("x", (b"x",), (), b"/", 1.0, 1.0, bounds=Bounds(reads=(str(closed),)))
    assert walls_of(reading).capabilities == ("dac_read_search",)
    assert "dac_read_search" in CAPABILITIES


def test_a_cell_says_why_it_cannot_become_a_command(tmp_path: Path) -> None:
    zygote = Zygote()
    reads = Reads(())
    try:
        cell = zygote.build(Walls(), reads.fd, str(tmp_path))
        cell.confirm()
        cell.prepare(Command([b"x"], {}, b"/no/such/folder"), (0, 1, 2))
        with pytest.raises(FileNotFoundError) as caught:
            cell.start()
        assert caught.value.filename == b"/no/such/folder"
        os.waitpid(cell.pid, 0)
        os.close(cell.listener)
    finally:
        reads.close()
        zygote.close()
        os.waitpid(zygote.pid, 0)


def test_rulesets_are_made_anew_when_a_folder_changes(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    os.utime(tmp_path, (1, 1))
    reads = Reads((str(tmp_path / "secret"),))
    (tmp_path / "new").write_text("x")
    assert not reads.is_current()
    reads.close()
    assert reads.fd == -1
    os.close(writes_ruleset((str(tmp_path),)))


def test_cells_close_whatever_they_have(tmp_path: Path) -> None:
    cells = Cells(tmp_path)
    assert cells.without_cells({1}) == {1}
    cells.close()


@pytest.mark.asyncio
async def test_a_call_of_a_process_that_is_gone_is_an_error() -> None:
    gone = await asyncio.create_subprocess_exec("/bin/true")
    await gone.wait()
    child = gone.pid
    call = Call(1, child, "connect", (0, 0, 16, 0, 0, 0))
    with pytest.raises(OSError, match=str(child)):
        await Connections(Reach(), _nowhere).carry_out(call, lambda: True)


@pytest.mark.asyncio
async def test_a_guard_remembers_each_refusal_once_and_not_too_many() -> None:
    guard = Guard(-1, 0, Connections(Reach(), _nowhere), Limits(), (), lambda: 0)
    for number in [1, 1, *range(100)]:
        guard.report(f"write to /{number}")
    assert guard.blocked == [f"write to /{number}" for number in (1, 0, *range(2, BLOCKED_MAX))]
    guard.close()


def test_what_the_kernel_tells_is_read() -> None:
    assert to_signed(0xFFFFFF9C) == -100
    assert RefusedError(1, "x").report == "x"
    usage = usage_of((os.getpid(),))
    assert usage.tasks >= 1
    assert usage.memory_bytes > 1_000_000
    assert Usage(1, 2).tasks == 1
    free, total = free_bytes()
    assert 0 < free < total
