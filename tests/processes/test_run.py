"""One command within its limits, on real processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from operator_sre.processes import run as running
from operator_sre.processes import tree
from operator_sre.processes.run import CANNOT_RUN, NOT_FOUND, Finished, run
from operator_sre.processes.tree import MARK
from tests.processes.waiting import eventually, gone, pids_in, timed_out_after_start

GRACE_S = 0.3
# What a busy machine may add; the promise itself is measured in benchmarks/.
LATE_S = 0.2


async def _run(
    argv: Sequence[str],
    *,
    cwd: str = "/",
    timeout_s: float = 30.0,
    stdin: bytes = b"",
    env: dict[str, str] | None = None,
) -> Finished:
    return await run(
        argv,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **(env or {})},
        timeout_s=timeout_s,
        grace_s=GRACE_S,
        output_bytes_max=10_000,
        stdin=stdin,
    )


@pytest.mark.asyncio
async def test_both_streams_and_the_exit_code_are_kept() -> None:
    done = await _run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert (done.stdout_bytes, done.stderr_bytes) == (4, 4)
    assert not done.timed_out
    assert not done.truncated


@pytest.mark.asyncio
async def test_stderr_is_kept_when_the_command_succeeds() -> None:
    done = await _run(["sh", "-c", "echo careful >&2"])
    assert (done.exit_code, done.stderr) == (0, b"careful\n")


@pytest.mark.asyncio
async def test_binary_output_comes_through_unchanged() -> None:
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)))"
    done = await _run([sys.executable, "-c", code])
    assert done.stdout == bytes(range(256))


@pytest.mark.asyncio
async def test_standard_input_is_empty_unless_given() -> None:
    assert (await _run(["cat"])).stdout == b""
    big = b"line\n" * 1000
    assert (await _run(["cat"], stdin=big)).stdout == big


@pytest.mark.asyncio
async def test_a_command_that_ignores_its_input_is_no_failure() -> None:
    assert (await _run(["true"], stdin=b"x" * 10_000_000)).exit_code == 0


@pytest.mark.asyncio
async def test_the_environment_is_exactly_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2")
    done = await _run(["env"], env={"GIVEN": "yes"})
    names = {line.partition(b"=")[0].decode() for line in done.stdout.splitlines()}
    assert names - {"PWD", "SHLVL", "_"} == {"PATH", "GIVEN", MARK}


@pytest.mark.asyncio
async def test_the_directory_is_the_one_given(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    assert (await _run(["pwd", "-P"], cwd=str(folder))).stdout.decode().strip() == str(folder)


@pytest.mark.asyncio
async def test_what_cannot_run_is_an_exit_code_not_an_error(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    unfit = tmp_path / "unfit"
    unfit.write_bytes(b"\x00no program")
    unfit.chmod(0o755)
    expected = {
        ("no-such-command",): (NOT_FOUND, b"no-such-command: command not found"),
        (str(tmp_path / "none"),): (NOT_FOUND, b"command not found"),
        (str(plain),): (CANNOT_RUN, b"Permission denied"),
        (str(tmp_path),): (CANNOT_RUN, b"Permission denied"),
        (str(unfit),): (CANNOT_RUN, b"Exec format error"),
        (): (CANNOT_RUN, b"there is no command"),
        ("echo", "a\0b"): (CANNOT_RUN, b"null byte"),
    }
    for argv, (code, words) in expected.items():
        done = await _run(argv)
        assert done.exit_code == code, argv
        assert words in done.stderr
        assert done.stderr_bytes == len(done.stderr)


@pytest.mark.asyncio
async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    done = await _run(["true"], cwd=str(tmp_path / "none"))
    assert done.exit_code == CANNOT_RUN
    assert str(tmp_path / "none") in done.stderr.decode()


# Each writes the pids of everything it starts into $PIDS and would run for minutes.
_NOTE = 'echo $$ >> "$PIDS"; '
_SLEEPER = "sh -c 'echo $$ >> \"$PIDS\"; exec sleep 300'"
_ESCAPE = """
import os, time
def note():
    with open(os.environ["PIDS"], "a") as file: file.write(f"{os.getpid()}\\n")
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    note(); time.sleep(300)
os.wait()
note()
"""
STUBBORN = {
    "obeys": ["sh", "-c", f"{_NOTE} exec sleep 300"],
    "ignores TERM": ["sh", "-c", f"trap '' TERM; {_NOTE} {_SLEEPER} & while :; do sleep 1; done"],
    "stops itself": ["sh", "-c", f"{_NOTE} kill -STOP $$; sleep 300"],
    "stops and ignores": ["sh", "-c", f"trap '' TERM; {_NOTE} kill -STOP $$; sleep 300"],
    "forks twice out of the session": [
        sys.executable,
        "-c",
        f"{_ESCAPE}\ntime.sleep(300)",
    ],
    "forks twice and ignores TERM": [
        sys.executable,
        "-c",
        f"import signal; signal.signal(15, signal.SIG_IGN)\n{_ESCAPE}\ntime.sleep(300)",
    ],
    "in the background of a shell": ["sh", "-c", f"{_NOTE} {_SLEEPER} & {_SLEEPER} & wait"],
}


@pytest.mark.asyncio
@pytest.mark.parametrize("argv", STUBBORN.values(), ids=STUBBORN.keys())
async def test_a_time_out_ends_the_whole_tree_in_time(argv: list[str], tmp_path: Path) -> None:
    begun = time.monotonic()
    done = await timed_out_after_start(
        lambda timeout_s: _run(argv, timeout_s=timeout_s, env={"PIDS": str(tmp_path / "pids")}),
        lambda _: pids_in(tmp_path / "pids"),
    )
    took_s = time.monotonic() - begun
    assert done.timed_out
    assert done.exit_code < 0
    assert took_s >= 1.0
    assert gone(pids_in(tmp_path / "pids"))


@pytest.mark.asyncio
async def test_a_grandchild_that_holds_the_pipe_does_not_hold_us(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _ESCAPE + "print('over')"]
    done = await _run(argv, env={"PIDS": str(tmp_path / "pids")})
    assert (done.exit_code, done.stdout) == (0, b"over\n")
    assert len(pids_in(tmp_path / "pids")) == 2
    assert gone(pids_in(tmp_path / "pids"))


@pytest.mark.asyncio
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", ["ignores TERM", "forks twice and ignores TERM"])
async def test_cancellation_leaves_no_process(name: str, times: int, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    task = asyncio.create_task(_run(STUBBORN[name], env={"PIDS": str(pids)}))
    await eventually(lambda: len(pids_in(pids)) == 2)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    # Killed twice over, it may take a busy machine a moment; by itself it would take 300 s.
    await eventually(lambda: gone(pids_in(pids)))


@pytest.mark.asyncio
@pytest.mark.parametrize("turns", range(10))
async def test_a_start_can_be_cancelled_at_any_moment(
    turns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = os.waitpid
    begun: list[int] = []
    over: list[int] = []

    def slowly(pid: int, options: int) -> tuple[int, int]:
        """Whoever waits for the child hears of its end late, as on a busy machine."""
        begun.append(pid)
        try:
            return wait(pid, options)
        finally:
            threading.Event().wait(LATE_S)
            over.append(pid)

    monkeypatch.setattr(os, "waitpid", slowly)
    note = tmp_path / "pids"
    task = asyncio.create_task(_run(STUBBORN["ignores TERM"], env={"PIDS": str(note)}))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=60.0)
    assert done == {task}
    assert task.cancelled()
    assert begun == over, "it was not waited for"
    await eventually(lambda: gone(pids_in(note)))


@pytest.mark.asyncio
async def test_a_cancelled_start_ends_processes_that_show_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a process becomes another program, the kernel shows no environment of it."""
    spawn, is_cancelled = running._spawn, asyncio.Event()

    async def spawn_slowly(*args: Any, **options: Any) -> asyncio.SubprocessTransport:
        transport = await spawn(*args, **options)
        await is_cancelled.wait()
        return transport

    monkeypatch.setattr(running, "_spawn", spawn_slowly)
    monkeypatch.setattr(tree, "environment_of", lambda pid: b"")
    note = tmp_path / "pids"
    task = asyncio.create_task(_run(STUBBORN["ignores TERM"], env={"PIDS": str(note)}))
    await eventually(lambda: len(pids_in(note)) == 2)
    task.cancel()
    await asyncio.sleep(0)
    is_cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: gone(pids_in(note)))


_FLOOD = """
import asyncio, resource
from operator_sre.processes.run import run
async def main():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await run(
        ["sh", "-c", "head -c 200000000 /dev/zero; head -c 1000000 /dev/zero >&2"],
        cwd="/", env={"PATH": "/usr/bin:/bin"}, timeout_s=60, output_bytes_max=1_000_000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(after - before, done.stdout_bytes, len(done.stdout), done.stderr_bytes, done.truncated)
asyncio.run(main())
"""


def test_two_hundred_megabytes_of_output_stay_bounded_in_memory() -> None:
    done = subprocess.run([sys.executable, "-c", _FLOOD], capture_output=True, check=True)
    grown_kb, seen, kept, errors, truncated = done.stdout.decode().split()
    assert int(grown_kb) < 20_000
    assert (int(seen), int(errors), truncated) == (200_000_000, 1_000_000, "True")
    assert int(kept) <= 1_000_000


@pytest.mark.asyncio
async def test_many_commands_run_side_by_side() -> None:
    done = await asyncio.gather(*(_run(["sh", "-c", f"echo {n}"]) for n in range(20)))
    assert [int(each.stdout) for each in done] == list(range(20))
