"""A real runner and real commands: each once, bounded, and known to whoever comes later."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from operator_protocols.domain.target import Process
from operator_protocols.errors import ExecutorError
from operator_sre.processes.identity import process_of, tree_of
from operator_sre.processes.runner.client import RunnerClient
from operator_sre.processes.runner.line import Line, dial
from operator_sre.processes.runner.places import SOCKET, listens, peer_of, reachable
from operator_sre.processes.runner.records import Claim, Records, boot_id, live_claims
from operator_sre.processes.runner.wire import (
    Attach,
    Begin,
    Bounds,
    Done,
    Order,
    Unknown,
    decode_request,
)
from tests.processes.runners import end_runner, runner_of
from tests.processes.waiting import eventually, gone, pids_in, timed_out_after_start

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("real_runner")]
PATH = os.environ["PATH"]


def _order(command: str, *, timeout_s: float = 60.0, ends_left: bool = False) -> Order:
    return Order(
        id=secrets.token_hex(8),
        argv=(b"/bin/bash", b"-c", command.encode()),
        env=(f"PATH={PATH}".encode(), b"ODD=\xff"),
        cwd=b"/",
        timeout_s=timeout_s,
        grace_s=0.3,
        ends_left=ends_left,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runner"


def _runner(folder: Path) -> Process:
    runner = runner_of(folder)
    assert runner is not None
    return runner


async def _running(folder: Path) -> None:
    await eventually(lambda: [one for one in live_claims(folder) if one.process])


async def test_the_same_job_twice_runs_once(folder: Path, tmp_path: Path) -> None:
    order = _order(f"echo ran >> {tmp_path}/runs; echo told; exit 3")
    one, other = RunnerClient(folder), RunnerClient(folder)
    first, second = await asyncio.gather(one.run(order), other.run(order))
    third = await RunnerClient(folder).run(order)
    assert first == second == third
    assert (first.exit_code, first.stdout) == (3, b"told\n")
    assert (tmp_path / "runs").read_text() == "ran\n"


async def test_many_at_once_are_one_runner(folder: Path, tmp_path: Path) -> None:
    done = await asyncio.gather(
        *(RunnerClient(folder).run(_order(f"echo {number}")) for number in range(20))
    )
    assert [one.stdout for one in done] == [b"%d\n" % number for number in range(20)]
    assert _runner(folder).pid


async def test_a_job_that_was_asked_for_can_never_begin_later(folder: Path, tmp_path: Path) -> None:
    order = _order(f"touch {tmp_path}/ran")
    asked = await RunnerClient(folder).attach(order.id)
    assert isinstance(asked, Unknown)
    with pytest.raises(ExecutorError, match="can no longer start"):
        await RunnerClient(folder).run(order)
    assert not (tmp_path / "ran").exists()


async def test_it_outlives_the_operator_and_the_next_one_is_told(
    folder: Path, tmp_path: Path
) -> None:
    """The operator is a process of its own here, killed with no warning."""
    order = _order(f"echo begun; echo $$ >> {tmp_path}/pids; read line < {tmp_path}/go; exit 7")
    os.mkfifo(tmp_path / "go")
    script = (
        "import asyncio, sys, pathlib, msgspec\n"
        "from operator_sre.processes.runner.client import RunnerClient\n"
        "from operator_sre.processes.runner.wire import Order\n"
        "order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)\n"
        "asyncio.run(RunnerClient(pathlib.Path(sys.argv[1])).run(order))\n"
    )
    with subprocess.Popen(  # noqa: ASYNC220  it takes no time, and is to be killed
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE
    ) as operator:
        assert operator.stdin is not None
        operator.stdin.write(msgspec.json.encode(order))
        operator.stdin.close()
        await eventually(lambda: pids_in(tmp_path / "pids"))
        operator.kill()
    heard: list[bytes] = []
    adopted = asyncio.ensure_future(
        RunnerClient(folder).attach(order.id, watch=lambda stream, data: heard.append(data))
    )
    await asyncio.sleep(0)
    assert not gone(pids_in(tmp_path / "pids"))
    await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
    done = await adopted
    assert isinstance(done, Done)
    assert (done.exit_code, done.stdout) == (7, b"begun\n")
    assert b"".join(heard) == b"begun\n"


async def test_a_runner_that_dies_makes_it_unknown_and_its_limit_holds(
    folder: Path, tmp_path: Path
) -> None:
    order = _order(f"trap '' PIPE; echo $$ >> {tmp_path}/pids; sleep 60", timeout_s=3.0)
    waiting = asyncio.ensure_future(RunnerClient(folder).run(order))
    await eventually(lambda: pids_in(tmp_path / "pids"))
    os.kill(_runner(folder).pid, signal.SIGKILL)
    done = await waiting
    assert (done.exit_code, done.errno) == (None, 0)
    assert "killed" in done.error
    assert gone(pids_in(tmp_path / "pids"))
    assert await RunnerClient(folder).run(order) == done


def _children(folder: Path) -> set[int]:
    """The processes below the runner: the one that forks cells, and the cells."""
    return {process.pid for process in tree_of(_runner(folder).pid)}


async def _prepare(client: RunnerClient, order: Order) -> Line:
    """A job that is prepared on a connection that the client has by then."""
    await client.run(msgspec.structs.replace(order, id=secrets.token_hex(8), argv=(b"/bin/true",)))
    line = client.prepare(order)
    assert line is not None
    return line


async def test_a_prepared_job_starts_when_it_is_run_and_once(folder: Path, tmp_path: Path) -> None:
    client = RunnerClient(folder)
    order = _order(f"echo ran >> {tmp_path}/runs; echo fine")
    order = msgspec.structs.replace(order, bounds=Bounds(writable=None))
    line = await _prepare(client, order)
    await client.run(_order("true"))  # which the runner does behind it
    assert not (tmp_path / "runs").exists()
    assert order.id not in [claim.id for claim in live_claims(folder)]
    done = await client.run(order, prepared=line)
    assert (done.exit_code, done.stdout) == (0, b"fine\n")
    assert await RunnerClient(folder).run(order) == done
    assert (tmp_path / "runs").read_text() == "ran\n"


async def test_a_prepared_job_that_is_dropped_never_runs(folder: Path, tmp_path: Path) -> None:
    client = RunnerClient(folder)
    order = _order(f"echo ran >> {tmp_path}/runs")
    order = msgspec.structs.replace(order, bounds=Bounds(writable=None))
    line = await _prepare(client, order)
    await eventually(lambda: len(_children(folder)) == 2)
    line.close()
    await eventually(lambda: len(_children(folder)) == 1)
    assert isinstance(await RunnerClient(folder).attach(order.id), Unknown)
    assert not (tmp_path / "runs").exists()


async def test_another_request_drops_what_was_prepared(folder: Path, tmp_path: Path) -> None:
    client = RunnerClient(folder)
    order = _order(f"echo ran >> {tmp_path}/runs; echo fine")
    order = msgspec.structs.replace(order, bounds=Bounds(writable=None))
    line = await _prepare(client, order)
    await line.send(Attach("another-job"))
    assert isinstance(await line.next(), Unknown)
    await line.send(Begin(order.id))
    with pytest.raises(ConnectionError):
        await line.next()
    assert not (tmp_path / "runs").exists()


async def test_a_job_whose_runner_died_prepared_runs_once(folder: Path, tmp_path: Path) -> None:
    client = RunnerClient(folder)
    order = _order(f"echo ran >> {tmp_path}/runs; echo fine")
    order = msgspec.structs.replace(order, bounds=Bounds(writable=None))
    line = await _prepare(client, order)
    end_runner(folder, signal.SIGKILL)
    done = await client.run(order, prepared=line)
    assert (done.exit_code, done.stdout) == (0, b"fine\n")
    assert (tmp_path / "runs").read_text() == "ran\n"


async def test_a_runner_that_died_meanwhile_is_replaced(folder: Path, tmp_path: Path) -> None:
    client = RunnerClient(folder)
    await client.run(_order("true"))
    end_runner(folder, signal.SIGKILL)
    done = await client.run(_order(f"echo ran >> {tmp_path}/runs; echo fine"))
    assert (done.exit_code, done.stdout) == (0, b"fine\n")
    assert (tmp_path / "runs").read_text() == "ran\n"


async def test_what_ran_before_a_restart_of_the_machine_is_unknown(folder: Path) -> None:
    for job, boot in (("job-1", "another life"), ("job-2", boot_id())):
        records = Records(folder)
        assert records.claim(Claim(job, boot, 0.0, 0.1))
        records.close()
        done = await RunnerClient(folder).attach(job)
        assert isinstance(done, Done)
        assert done.exit_code is None
        assert ("restarted" in done.error) is (boot != boot_id())
        end_runner(folder)


async def test_a_cancelled_job_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    order = _order(f"echo $$ >> {tmp_path}/pids; trap '' TERM; setsid sleep 60 & sleep 60; sleep 9")
    task = asyncio.ensure_future(RunnerClient(folder).run(order))
    await eventually(lambda: pids_in(tmp_path / "pids"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone(pids_in(tmp_path / "pids"))
    done = await RunnerClient(folder).attach(order.id)
    assert isinstance(done, Done)
    assert done.cancelled


_FLEE = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
STUBBORN = {
    "ignores TERM": "trap '' TERM; echo $$ >> PIDS; while :; do sleep 1; done",
    "in another session": "setsid bash -c 'echo $$ >> PIDS; sleep 60' & sleep 60",
    "forked twice": f'python3 -c "{_FLEE}'
    "open('PIDS', 'a').write(str(os.getpid()) + chr(10))\nimport time; time.sleep(60)\"; sleep 60",
    "without its mark": "setsid env -i bash -c 'echo $$ >> PIDS; exec sleep 60' & sleep 60",
    "many": "for i in $(seq 40); do (echo $BASHPID >> PIDS; exec sleep 60) & done; wait",
    "stopped": "echo $$ >> PIDS; kill -STOP $$; sleep 60",
}


@pytest.mark.parametrize("command", STUBBORN.values(), ids=STUBBORN.keys())
async def test_a_time_out_ends_the_whole_tree(folder: Path, tmp_path: Path, command: str) -> None:
    pids = tmp_path / "pids"
    line = command.replace("PIDS", str(pids))
    done = await timed_out_after_start(
        lambda timeout_s: RunnerClient(folder).run(_order(line, timeout_s=timeout_s)),
        lambda _: pids_in(pids),
    )
    assert done.timed_out
    assert gone(pids_in(pids))


@pytest.mark.parametrize("hides", ["", "setsid ", "setsid env -i "])
@pytest.mark.parametrize("quiet", ["", " >/dev/null 2>&1"])
async def test_what_it_leaves_behind_is_reported_and_left_alone(
    folder: Path, hides: str, quiet: str
) -> None:
    done = await RunnerClient(folder).run(_order(f"{hides}sleep 60{quiet} & echo over"))
    assert (done.exit_code, done.stdout) == (0, b"over\n")
    (left,) = done.left
    assert not left.ended
    assert process_of(left.process.pid) == left.process
    os.kill(left.process.pid, signal.SIGKILL)


async def test_what_it_leaves_behind_is_ended_where_that_is_wanted(folder: Path) -> None:
    order = _order("setsid env -i sleep 60 & trap '' TERM; echo over", ends_left=True)
    done = await RunnerClient(folder).run(order)
    (left,) = done.left
    assert left.ended
    assert gone([left.process.pid])


async def test_commands_side_by_side_do_not_end_each_other(folder: Path, tmp_path: Path) -> None:
    client = RunnerClient(folder)
    quiet = asyncio.ensure_future(client.run(_order(f"read line < {tmp_path}/go; echo fine")))
    os.mkfifo(tmp_path / "go")
    await _running(folder)
    done = await client.run(_order("setsid sleep 60 & sleep 60", timeout_s=0.5))
    assert done.timed_out
    await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
    assert (await quiet).exit_code == 0


async def test_what_speaks_on_afterwards_is_not_hurt_by_it(folder: Path, tmp_path: Path) -> None:
    """Left behind, it writes to a pipe that somebody still has to read."""
    speaker = f"while ! [ -e {tmp_path}/stop ]; do echo x; done; echo ended > {tmp_path}/end"
    done = await RunnerClient(folder).run(_order(f"({speaker}) & exit 0"))
    assert len(done.left) == 1
    (tmp_path / "stop").touch()
    await eventually((tmp_path / "end").exists)


async def test_input_output_usage_and_a_missing_program(folder: Path) -> None:
    client = RunnerClient(folder)
    text = b"x" * 300_000
    fed = msgspec.structs.replace(_order(""), argv=(b"/bin/cat",), stdin=text)
    done = await client.run(fed)
    assert (done.stdout_bytes, done.truncated, done.exit_code) == (300_000, True, 0)
    odd = await client.run(_order("printf %s $ODD"))
    assert odd.stdout == b"\xff"
    closed = await client.run(_order("read line || echo nothing"))
    assert closed.stdout == b"nothing\n"
    busy = await client.run(_order("python3 -c 'x = bytearray(90_000_000); sum(range(2_000_000))'"))
    assert busy.user_s > 0
    assert busy.memory_bytes > 80_000_000
    missing = await client.run(msgspec.structs.replace(_order(""), argv=(b"/no/such",)))
    assert (missing.exit_code, missing.errno) == (None, 2)
    assert missing.error == "/no/such: command not found"
    nowhere = await client.run(msgspec.structs.replace(_order("true"), cwd=b"/no/where"))
    assert nowhere.error == "/no/where: No such file or directory"


async def test_a_runner_that_nobody_needs_goes(folder: Path) -> None:
    await RunnerClient(folder).run(_order("true"))
    runner = _runner(folder)
    await eventually(lambda: process_of(runner.pid) is None)
    assert not (folder / SOCKET).exists()
    assert (await RunnerClient(folder).run(_order("echo again"))).stdout == b"again\n"


async def test_a_runner_that_is_dismissed_is_gone(folder: Path) -> None:
    client = RunnerClient(folder)
    await client.dismiss()
    await client.run(_order("true"))
    runner = _runner(folder)
    await client.dismiss()
    await eventually(lambda: process_of(runner.pid) is None)
    assert (await client.run(_order("echo again"))).stdout == b"again\n"


async def test_a_folder_of_any_depth_is_reached(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    assert (await RunnerClient(deep).run(_order("echo deep"))).stdout == b"deep\n"
    with reachable(deep) as path:
        assert len(path) < 100


async def test_nonsense_does_not_harm_it(folder: Path) -> None:
    client = RunnerClient(folder)
    await client.run(_order("true"))
    runner = _runner(folder)
    for nonsense in (b"{}\n", b"\xff\xfe\n", b'{"type": "order"}\n', b"x" * 100_000):
        with reachable(folder) as path:
            reader, writer = await asyncio.open_unix_connection(path)
        writer.write(nonsense)
        writer.write_eof()
        await reader.read()
        writer.close()
    assert (await client.run(_order("echo fine"))).stdout == b"fine\n"
    assert _runner(folder) == runner
    with pytest.raises(msgspec.MsgspecError):
        decode_request(b"[]")
    with pytest.raises(ExecutorError):
        await RunnerClient(Path("/dev/null/x")).run(_order("true"))


async def test_a_runner_that_is_asked_to_go_waits_for_what_runs(
    folder: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    task = asyncio.ensure_future(RunnerClient(folder).run(_order(f"read line < {tmp_path}/go")))
    await _running(folder)
    runner = _runner(folder)
    os.kill(runner.pid, signal.SIGTERM)
    await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
    assert (await task).exit_code == 0
    await eventually(lambda: process_of(runner.pid) is None)
    end_runner(folder)


NONSENSE: dict[str, dict[str, object]] = {
    "no words": {"argv": ()},
    "a name that is a path": {"id": "../x"},
    "a long name": {"id": "x" * 200},
    "a zero byte": {"argv": (b"/bin/echo", b"a\0b")},
}


@pytest.mark.parametrize("changes", NONSENSE.values(), ids=NONSENSE.keys())
async def test_what_makes_no_sense_is_answered(folder: Path, changes: dict[str, object]) -> None:
    done = await RunnerClient(folder).run(msgspec.structs.replace(_order("true"), **changes))
    assert done.refused or done.errno
    assert done.error


async def test_what_is_too_large_is_not_sent(folder: Path) -> None:
    order = msgspec.structs.replace(_order("true"), stdin=b"x" * 7_000_000)
    with pytest.raises(ExecutorError, match="larger"):
        await RunnerClient(folder).run(order)


async def test_orders_and_dismissals_at_once_lose_nothing(folder: Path, tmp_path: Path) -> None:
    async def dismiss() -> None:
        for _ in range(10):
            await RunnerClient(folder).dismiss()

    async def run(number: int) -> list[int | None]:
        client = RunnerClient(folder)
        orders = [_order(f"echo {number} >> {tmp_path}/runs") for _ in range(15)]
        return [(await client.run(order)).exit_code for order in orders]

    dismissed = asyncio.ensure_future(dismiss())
    found = await asyncio.gather(*(run(number) for number in range(3)))
    await dismissed
    assert found == [[0] * 15] * 3
    assert len((tmp_path / "runs").read_text().split()) == 45


@pytest.mark.parametrize("clears", ["", "env -i "])
async def test_who_forks_and_flees_again_and_again_is_caught(
    folder: Path, tmp_path: Path, clears: str
) -> None:
    """Each link of the chain lives for two milliseconds in a session of its own."""
    script = tmp_path / "chain.py"
    script.write_text(
        "import os, time\n"
        "while True:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
        f"    open({str(tmp_path / 'alive')!r}, 'w').write(str(time.monotonic()))\n"
        "    time.sleep(0.002)\n"
    )
    line = f"{clears}{sys.executable} -S {script} & sleep 60"
    done = await timed_out_after_start(
        lambda timeout_s: RunnerClient(folder).run(_order(line, timeout_s=timeout_s)),
        lambda _: (tmp_path / "alive").exists(),
    )
    assert done.timed_out
    last = (tmp_path / "alive").stat().st_mtime_ns
    with contextlib.suppress(AssertionError):
        await eventually(lambda: (tmp_path / "alive").stat().st_mtime_ns != last, within_s=0.3)
    assert (tmp_path / "alive").stat().st_mtime_ns == last


async def test_what_was_left_by_one_is_not_ended_by_another(folder: Path, tmp_path: Path) -> None:
    client = RunnerClient(folder)
    other = asyncio.ensure_future(client.run(_order("sleep 60", timeout_s=1.5)))
    await _running(folder)
    flees = f"setsid env -i bash -c 'echo $$ >> {tmp_path}/pids; exec sleep 60 >/dev/null 2>&1' &"
    await client.run(_order(f"{flees} sleep 0.2"))
    assert (await other).timed_out
    (pid,) = pids_in(tmp_path / "pids")
    assert not gone([pid])
    os.kill(pid, signal.SIGKILL)


async def test_what_is_not_to_run_alone_ends_with_its_operator(
    folder: Path, tmp_path: Path
) -> None:
    alone = _order(f"echo $$ >> {tmp_path}/pids; sleep 60")
    order = msgspec.structs.replace(alone, ends_alone=True)
    await RunnerClient(folder).run(_order("true"))
    line = dial(folder)
    await line.send(order)
    await eventually(lambda: pids_in(tmp_path / "pids"))
    line.close()
    await eventually(lambda: gone(pids_in(tmp_path / "pids")))
    done = await RunnerClient(folder).attach(order.id)
    assert isinstance(done, Done)
    assert done.cancelled


async def test_a_command_is_born_as_everywhere(folder: Path) -> None:
    done = await RunnerClient(folder).run(_order("umask; grep SigIgn /proc/self/status"))
    umask, ignored = done.stdout.decode().split("\n")[:2]
    assert umask == "0022"
    assert int(ignored.split()[1], 16) & (1 << (signal.SIGHUP - 1)) == 0


async def test_whose_runner_it_is_can_be_seen(folder: Path) -> None:
    folder.mkdir()
    assert not listens(folder)
    await RunnerClient(folder).run(_order("true"))
    assert listens(folder)
    with socket.socket(socket.AF_UNIX) as line, reachable(folder) as path:
        line.connect(path)
        assert peer_of(line) == os.geteuid()
