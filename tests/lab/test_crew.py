"""Programs beside a rig: what they say is passed on, and none outlives us."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from operator_lab.crew import Crew, Tail
from operator_sre.processes.supervision import SUPERVISE_FILE
from tests.processes.waiting import eventually, gone, processes_in

SECRET = "hunter2-and-more"
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('here'); time.sleep(99)"


def test_a_tail_tells_each_line_once_when_it_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "log"
    tail = Tail(file)
    assert tail.lines() == []
    with file.open("ab", buffering=0) as log:
        log.write(b"one\ntw")
        assert tail.lines() == ["one"]
        log.write(b"o\r\n\nthree\xff\n")
        assert tail.lines() == ["two", "", "three\ufffd"]
        assert tail.lines() == []


def test_a_tail_cuts_what_is_too_long_and_leaves_out_what_is_too_much(tmp_path: Path) -> None:
    file = tmp_path / "log"
    tail = Tail(file)
    with file.open("ab", buffering=0) as log:
        log.write(b"x" * 50_000 + b"\nafter\n")
        cut, after = tail.lines()
        assert (len(cut), cut[-4:], after) == (8196, " ...", "after")
        log.write(b"flood\n" * 500_000 + b"last\n")
        found = tail.lines()
        assert found[-1] == "last"
        assert len(found) < 20_000
        log.write(b"next\n")
        assert tail.lines() == ["next"]


@pytest.mark.asyncio
async def test_they_run_say_what_they_have_to_and_end_with_the_crew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", SECRET)
    monkeypatch.setenv("NOT_PASSED", SECRET)
    show = "import os; print(os.environ['A_KEY'], 'NOT_PASSED' in os.environ, os.environ['OWN'])"
    crew = await Crew.up(
        tmp_path / "crew",
        {"short": (sys.executable, "-c", show), "stubborn": (sys.executable, "-c", STUBBORN)},
        env={"OWN": "ours"},
        inherits=("A_KEY", "MISSING"),
        files={"note": "for them"},
    )
    try:
        said: list[str] = []

        def heard() -> list[str]:
            said.extend(crew.lines("short"))
            return said

        await eventually(heard)
        assert said == [f"{SECRET} False ours"]
        await eventually(lambda: crew.exits() == {"short": 0})
        await eventually(lambda: "here" in crew.lines("stubborn"))
        assert set(crew.pids()) == {"short", "stubborn"}
        assert (tmp_path / "crew" / "note").read_text() == "for them"
        # A key is handed on, and written nowhere.
        assert SECRET not in (tmp_path / "crew" / SUPERVISE_FILE).read_text()
        assert (tmp_path / "crew").stat().st_mode & 0o077 == 0
    finally:
        await crew.down()
    assert not (tmp_path / "crew").exists()
    assert processes_in(tmp_path) == []
    await crew.down()


def test_kill_nine_of_whoever_started_them_takes_them_along(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, pathlib; from operator_lab.crew import Crew\n"
        "async def main():\n"
        f"    crew = await Crew.up(pathlib.Path({str(tmp_path / 'crew')!r}),"
        " {'a': (sys.executable, '-c', 'import time; time.sleep(99)')}, env={})\n"
        "    print(crew.pids()['a'], flush=True)\n"
        "    await asyncio.sleep(99)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        os.kill(pid, 0)
        owner.send_signal(signal.SIGKILL)
    asyncio.run(eventually(lambda: not processes_in(tmp_path)))
    assert gone([pid])
