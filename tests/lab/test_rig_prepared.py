"""Files, preparation, readiness, further ports and users of the processes of a rig."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from operator_lab.rig import Rig, RunState
from operator_lab.startup import answers, start_process, wait_linked, wait_links
from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.errors import RigError
from operator_sre.processes.control import Control
from operator_sre.processes.identity import process_of
from tests.lab.conftest import Up
from tests.lab.town import TOWN, port_of, status_of, target_of, town_node
from tests.processes.waiting import eventually, names_in, pids_in, processes_in

_PREPARED = replace(
    town_node("ash", ports=("peer",), linked=False),
    files={"conf/a.txt": "at {port} and {port:peer}"},
    prepare=(
        ("sh", "-c", "echo once >> {dir}/prepared; echo preparing"),
        ("sh", "-c", "cat conf/a.txt > {volume}/copied"),
    ),
)
_WAITS = ProcessSpec(
    "elm",
    "sleeper",
    ("sh", "-c", "id -u > {dir}/who; sleep 0.2; touch {dir}/ready; exec sleep 300"),
    ready_argv=("test", "-e", "{dir}/ready"),
)


@pytest.mark.asyncio
async def test_what_is_prepared_is_prepared_once_before_the_first_start(up: Up) -> None:
    rig = await up(RigSpec("tiny", (_PREPARED,)))
    home = rig.layout().home("ash")
    ports = rig.manifest().ports
    assert (home / "data" / "copied").read_text() == f"at {ports['ash']} and {ports['ash:peer']}"
    assert Path(target_of(rig, "ash").data_dir) == home / "data"
    assert "preparing" in Path(target_of(rig, "ash").log).read_text()
    assert await answers(ports["ash:peer"], path="/health")
    await rig.kill("ash")
    await rig.restart("ash")
    assert (home / "prepared").read_text() == "once\n"


_FAILS = ("sh", "-c", "echo the disk is on strike >&2; exit 3")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (replace(_PREPARED, prepare=(_FAILS,)), "cannot be prepared: .* 'the disk is on strike'"),
        (replace(_PREPARED, prepare=(("no-such-tool",),)), "'no-such-tool' of 'ash' cannot be run"),
        (
            replace(_WAITS, ready_argv=("false",), ready_s_max=0.5),
            "'elm' did not answer within 0.5 s",
        ),
        (
            replace(_WAITS, ready_argv=("no-such-tool",), ready_s_max=0.5),
            "'elm' did not answer within 0.5 s",
        ),
    ],
    ids=["fails", "is not there", "is never ready", "has no check"],
)
async def test_what_cannot_be_prepared_leaves_nothing(
    tmp_path: Path, broken: ProcessSpec, why: str
) -> None:
    with pytest.raises(RigError, match=why) as failure:
        await Rig.up(RigSpec("tiny", (broken,)), tmp_path / "rig", owned=False)
    assert "\n" not in str(failure.value)
    assert names_in(tmp_path) == []
    assert processes_in(tmp_path) == []


@pytest.mark.asyncio
async def test_a_preparation_is_ended_when_the_start_is_cancelled(tmp_path: Path) -> None:
    hanging = replace(_PREPARED, prepare=(("sh", "-c", "echo $$ > {dir}/../pid; sleep 300"),))
    task = asyncio.create_task(Rig.up(RigSpec("tiny", (hanging,)), tmp_path / "rig", owned=False))
    await eventually(lambda: pids_in(tmp_path / "rig" / "pid"))
    (pid,) = pids_in(tmp_path / "rig" / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert process_of(pid) is None
    assert names_in(tmp_path) == []


@pytest.mark.asyncio
async def test_a_preparation_is_ended_after_a_crash(tmp_path: Path) -> None:
    hanging = replace(_PREPARED, prepare=(("sh", "-c", "echo $$ > {dir}/../pid; sleep 300"),))
    task = asyncio.create_task(Rig.up(RigSpec("tiny", (hanging,)), tmp_path / "rig", owned=False))
    await eventually(lambda: pids_in(tmp_path / "rig" / "pid"))
    (pid,) = pids_in(tmp_path / "rig" / "pid")
    supervisor = (await Control(tmp_path / "rig").status()).supervisor
    os.kill(supervisor.pid, signal.SIGKILL)
    with pytest.raises(RigError):
        await task
    assert process_of(pid) is None
    assert names_in(tmp_path) == []


@pytest.mark.asyncio
async def test_a_check_says_when_it_is_ready_and_nobody_has_to_listen(up: Up) -> None:
    rig = await up(RigSpec("tiny", (_WAITS,)))
    home = rig.layout().home("elm")
    assert (home / "ready").exists()
    assert await Control(rig.directory).check("elm") == ""
    (home / "ready").unlink()
    assert "not ready" in await Control(rig.directory).check("elm")
    await rig.restart("elm")
    assert (home / "ready").exists()
    assert rig.damage("elm") == frozenset()


@pytest.mark.asyncio
async def test_the_unprivileged_never_run_as_root(up: Up) -> None:
    writes = ("sh", "-c", "id -u > {volume}/who; cat {dir}/secret > {volume}/seen")
    spec = replace(_WAITS, unprivileged=True, files={"secret": "s"}, prepare=(writes,))
    rig = await up(RigSpec("tiny", (spec,)), owned=False)
    layout = rig.layout()
    home, data = layout.home("elm"), Path(target_of(rig, "elm").data_dir)
    uid = int((home / "who").read_text())
    assert uid == int((data / "who").read_text()) != 0
    assert (data / "seen").read_text() == "s"
    assert home.stat().st_uid == uid
    assert home.stat().st_mode & 0o077 == 0
    assert Path(target_of(rig, "elm").log).parent == home
    assert (uid == os.geteuid()) == (os.geteuid() != 0)
    if os.geteuid() == 0:
        # Our own directory may lie where nobody else can go.
        assert not home.is_relative_to(rig.directory)
    await rig.limit("elm", files=20)
    assert rig.damage("elm") == {"limit"}
    await rig.unlimit("elm")
    await rig.restart("elm")
    await rig.down()
    assert not home.exists()
    assert not rig.directory.exists()


@pytest.mark.asyncio
async def test_what_does_not_need_each_other_starts_at_the_same_time(up: Up) -> None:
    """Each waits until it sees all the others, so one after the other would never be ready."""
    names = ("ash", "birch", "cedar", "elm", "fir", "yew")
    count = f"[ $(ls {{dir}}/../seen-* | wc -l) -eq {len(names)} ]"
    specs = tuple(
        ProcessSpec(
            *(name, "sleeper", ("sh", "-c", f"touch {{dir}}/../seen-{name}; exec sleep 300")),
            ready_argv=("sh", "-c", count),
        )
        for name in names
    )
    rig = await up(RigSpec("tiny", specs))
    assert {each.state for each in rig.status().processes} == {RunState.RUNNING}


@pytest.mark.asyncio
async def test_workers_that_left_the_group_are_paused_and_killed_too(up: Up) -> None:
    leaves = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    open('worker', 'w').write(str(os.getpid()))\n"
        "time.sleep(300)"
    )
    spec = ProcessSpec(
        *("ash", "sleeper", (sys.executable, "-c", leaves)),
        ready_argv=("test", "-s", "{dir}/worker"),
    )
    rig = await up(RigSpec("tiny", (spec,)))
    (worker,) = pids_in(rig.layout().home("ash") / "worker")
    await rig.pause("ash")
    await eventually(lambda: " T " in Path(f"/proc/{worker}/stat").read_text())
    await rig.kill("ash")
    await eventually(lambda: process_of(worker) is None)


@pytest.mark.asyncio
async def test_a_process_is_started_by_hand_as_the_rig_does_it(up: Up) -> None:
    rig = await up(TOWN)
    layout = rig.layout()
    spec = layout.manifest.process("ash")
    await rig.kill("ash")
    process = await start_process(layout, spec)
    assert process == status_of(rig, "ash").process
    await wait_links(layout)
    await wait_linked(layout, spec)
    assert await answers(port_of(rig, "ash"), path="/health")


def _cleaning(*cleanup: tuple[str, ...]) -> RigSpec:
    """A rig that makes something elsewhere."""
    return RigSpec("tiny", (replace(_WAITS, cleanup=cleanup),))


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["down", "down after a crash", "up again"])
async def test_what_was_made_elsewhere_is_removed_once_everything_has_ended(
    tmp_path: Path, how: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    pid_gone = "! grep -q . /proc/$(cat {dir}/pid)/cmdline 2>/dev/null"
    spec = _cleaning(("sh", "-c", f"{pid_gone} && echo removed >> {elsewhere}"))
    ready = "id -u > {dir}/who; echo $$ > {dir}/pid; touch {dir}/ready; exec sleep 300"
    process = replace(spec.processes[0], argv=("sh", "-c", ready))
    rig = await Rig.up(RigSpec("tiny", (process,)), tmp_path / "rig", owned=False)
    if how != "down":
        supervisor = rig.manifest().supervisor
        assert supervisor is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        await eventually(lambda: not rig.manifest().live)
    assert not elsewhere.exists()
    if how == "up again":
        again = await Rig.up(RigSpec("tiny", (_WAITS,)), tmp_path / "rig", owned=False)
        assert elsewhere.read_text() == "removed\n"
        await again.down()
    await rig.down()
    assert elsewhere.read_text() == "removed\n"
    assert not (tmp_path / "rig").exists()


@pytest.mark.asyncio
async def test_a_rig_stays_while_what_it_made_elsewhere_cannot_be_removed(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    refuses = ("sh", "-c", f"test -e {allowed} || {{ echo not now >&2; exit 1; }}")
    rig = await Rig.up(_cleaning(refuses), tmp_path / "rig", owned=False)
    with pytest.raises(RigError, match=r"'elm' made elsewhere .* not now"):
        await rig.down()
    assert processes_in(tmp_path) == []
    allowed.touch()
    await rig.down()
    assert names_in(tmp_path) == ["allowed"]
