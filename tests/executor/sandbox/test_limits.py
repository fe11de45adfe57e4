"""Whatever a script takes is limited, and nothing of it outlives its box."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_sre.executor.sandbox import Language, Limits, Script
from tests.executor.jobs import new_job
from tests.executor.sandbox.boxes import Boxed, bubblewrap, of_plain_user, running
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

MEBIBYTE = 1024 * 1024


@pytest.fixture(params=["with a cgroup", "of a plain user"])
def boxed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Boxed]:
    with (bubblewrap if request.param == "with a cgroup" else of_plain_user)(tmp_path) as made:
        yield made
        assert made.left() == []


async def test_processes_are_few(boxed: Boxed) -> None:
    text = """
import os, signal, sys
children = []
try:
    while len(children) < 500:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except OSError as error:
    print(len(children), error)
"""
    result = await boxed.run(Language.PYTHON, text)
    assert result.ok, result.stderr
    count, _, why = result.stdout.partition(" ")
    assert 20 < int(count) <= Limits().processes + 4
    assert "unavailable" in why


async def test_a_fork_bomb_ends_with_its_box(boxed: Boxed) -> None:
    mark = f"9{secrets.randbelow(10**12):012}"
    text = f"bomb() {{ sleep {mark} & bomb | bomb & }}; bomb 2>/dev/null; wait"
    result = await boxed.run(Language.BASH, text, limits=Limits(timeout_s=2))
    assert result.outcome in (Outcome.TIMED_OUT, Outcome.RAN)
    await eventually(lambda: not running(mark))


async def test_threads_are_processes(boxed: Boxed) -> None:
    text = """
import threading
event = threading.Event()
threading.stack_size(65536)
count = 0
try:
    while count < 500:
        threading.Thread(target=event.wait, daemon=True).start()
        count += 1
except RuntimeError as error:
    print(count, flush=True)
import os; os._exit(0)
"""
    result = await boxed.run(Language.PYTHON, text)
    assert 20 < int(result.stdout) <= Limits().processes + 4


async def test_one_process_cannot_take_all_memory(boxed: Boxed) -> None:
    text = f"""
try:
    bytearray(600 * {MEBIBYTE})
except MemoryError:
    print("no more")
"""
    result = await boxed.run(Language.PYTHON, text)
    assert (result.stdout, result.exit_code) == ("no more\n", 0)


async def test_all_processes_together_cannot_take_all_memory(boxed: Boxed) -> None:
    text = f"""
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = b"x" * (150 * {MEBIBYTE})
        time.sleep(20)
        os._exit(0)
for _ in range(8):
    pid, status = os.wait()
    if status:
        os._exit(9)
print("all of them held it")
"""
    result = await boxed.run(Language.PYTHON, text)
    assert "all of them" not in result.stdout
    assert not result.ok
    assert result.category is FailureCategory.RESOURCE, result
    assert result.data["used_up"] == "memory"
    assert "memory" in result.stderr


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
async def test_a_disk_cannot_be_filled(boxed: Boxed, folder: str) -> None:
    text = f"""
written = 0
try:
    for number in range(100):
        with open("{folder}/" + str(number), "wb") as file:
            for _ in range(8):
                file.write(b"x" * {MEBIBYTE})
                file.flush()
                written += 1
except OSError as error:
    print(written, error.strerror)
"""
    result = await boxed.run(Language.PYTHON, text)
    written, _, why = result.stdout.partition(" ")
    assert int(written) <= Limits().temporary_bytes // MEBIBYTE
    assert "No space left" in why


async def test_a_file_has_a_size(boxed: Boxed) -> None:
    text = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    open("/tmp/big", "wb").truncate(1 << 40)
except OSError as error:
    print(error.strerror)
"""
    result = await boxed.run(Language.PYTHON, text)
    assert result.stdout == "File too large\n"


async def test_few_files_are_open_at_a_time(boxed: Boxed) -> None:
    text = """
held = []
try:
    while len(held) < 5000:
        held.append(open("/dev/null"))
except OSError:
    print(len(held))
"""
    result = await boxed.run(Language.PYTHON, text)
    assert int(result.stdout) <= Limits().open_files


async def test_a_crash_leaves_no_core(boxed: Boxed) -> None:
    text = """
import glob, os, resource
if os.fork() == 0:
    os.abort()
print(os.WCOREDUMP(os.wait()[1]), glob.glob("/tmp/*"), resource.getrlimit(resource.RLIMIT_CORE))
"""
    result = await boxed.run(Language.PYTHON, text)
    assert result.stdout == "False [] (0, 0)\n"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (Language.BASH, "setsid nohup sleep @MARK@ >/dev/null 2>&1 & disown; echo begun"),
        (
            Language.PYTHON,
            """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "@MARK@"])
    os._exit(0)
os.wait()
print("begun", flush=True)
""",
        ),
    ],
    ids=str,
)
async def test_a_daemon_ends_with_its_box(boxed: Boxed, language: Language, text: str) -> None:
    mark = f"9{secrets.randbelow(10**12):012}"
    result = await boxed.run(language, text.replace("@MARK@", mark))
    assert result.stdout == "begun\n", result.stderr
    assert not result.timed_out
    await eventually(lambda: not running(mark))


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            Language.BASH,
            "trap '' TERM INT HUP; echo begun; setsid sleep @MARK@ & while :; do sleep 9; done",
        ),
        (
            Language.PYTHON,
            """
import os, signal, subprocess
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "@MARK@"], start_new_session=True)
os.kill(child.pid, signal.SIGSTOP)
print("begun", flush=True)
while True:
    signal.pause()
""",
        ),
    ],
    ids=str,
)
async def test_nothing_outlives_its_time(boxed: Boxed, language: Language, text: str) -> None:
    mark = f"9{secrets.randbelow(10**12):012}"
    result = await boxed.run(language, text.replace("@MARK@", mark), limits=Limits(timeout_s=3))
    assert result.timed_out
    assert result.category is FailureCategory.TIMEOUT
    assert result.stdout == "begun\n"
    await eventually(lambda: not running(mark))


async def test_a_loop_gets_one_processor(boxed: Boxed) -> None:
    text = """
import os, time
began = time.monotonic()
children = [os.fork() for _ in range(1)]
while time.monotonic() - began < 1.5:
    pass
if 0 not in children:
    os.wait()
    spent = os.times()
    print(spent.user + spent.system + spent.children_user + spent.children_system)
os._exit(0)
"""
    result = await boxed.run(Language.PYTHON, text.replace("os._exit(0)", ""))
    # Two loops of 1.5 s each would compute for 3 s on two processors.
    assert float(result.stdout) < 2.2


async def test_cancelled_it_leaves_nothing(boxed: Boxed) -> None:
    mark = f"9{secrets.randbelow(10**12):012}"
    script = Script(Language.BASH, f"sleep {mark}")
    task = asyncio.create_task(boxed.sandbox.run(script, Limits(), new_job()))
    await eventually(lambda: running(mark))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not running(mark))
