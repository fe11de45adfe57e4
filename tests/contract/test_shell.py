"""What a Shell promises, for every place where commands run."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.ports import Job, Shell
from operator_sre.executor.docker import Address
from operator_sre.executor.docker import Engine as Client
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.docker import DockerWire, KubectlWire
from operator_sre.executor.transports.local import LocalShell
from operator_sre.executor.transports.places import Container, Host
from operator_sre.executor.transports.remote import RemoteShell
from operator_sre.executor.transports.ssh import SshSettings, SshWire
from tests.engines.dockerd import Engine, docker_engine
from tests.every import every
from tests.executor.jobs import new_job, run_in
from tests.executor.transports.sshd import Sshd, serving_ssh
from tests.executor.transports.stand_in_kubectl import POD, stand_in_kubectl
from tests.executor.transports.witness import Witness, witness_in
from tests.processes.waiting import eventually, timed_out_after_start

pytestmark = pytest.mark.asyncio

FOREVER = "while :; do sleep 1; done"
# A child that ignores TERM, one in a session of its own, one that is stopped.
STUBBORN = f"(trap '' TERM; {FOREVER}) & (setsid sleep 60 &) ; sleep 61 & kill -STOP $!; "


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving_ssh(tmp_path_factory.mktemp("sshd")) as one:
        yield one


Make = Callable[[], Shell]


def _local(request: pytest.FixtureRequest, folder: Path) -> Make:
    return lambda: LocalShell(Programs(Spool(folder / "home" / "spool")))


def _ssh(request: pytest.FixtureRequest, folder: Path) -> Make:
    sshd: Sshd = request.getfixturevalue("sshd")
    settings = SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,))
    host = Host(sshd.user, "127.0.0.1", sshd.port)
    spool = Spool(folder / "home" / "spool")
    return lambda: RemoteShell(SshWire(host, settings), "there", spool, remembers=True)


def _kubectl(request: pytest.FixtureRequest, folder: Path) -> Make:
    """Without a cluster; the stand-in is told as such."""
    kubectl = stand_in_kubectl(folder / "bin", request.getfixturevalue("sshd"))
    spool = Spool(folder / "home" / "spool")
    programs = Programs(spool)
    return lambda: RemoteShell(KubectlWire(POD, programs, kubectl=kubectl), "there", spool)


@pytest.fixture(scope="module")
def container(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Client]]:
    """One container for all tests, which sees the folder of each of them."""
    engine = Engine(docker_engine(pytestconfig).socket)
    folder = tmp_path_factory.getbasetemp()
    binds = {"Binds": [f"{folder}:{folder}"], "Init": False}
    made = engine.run("sleep", "3600", HostConfig=binds, Env=["IMAGE_SECRET=hunter2"])
    yield made, Client(Address(socket=engine.socket))
    engine.clean()


def _docker(request: pytest.FixtureRequest, folder: Path) -> Make:
    made, client = request.getfixturevalue("container")
    spool = Spool(folder / "home" / "spool")
    return lambda: RemoteShell(DockerWire(Container(made), client), "there", spool)


PLACES = {
    "docker": _docker,
    "kubectl-stand-in": _kubectl,
    "local": _local,
    "ssh": _ssh,
}


# A stand-in shows least, so that it is for long runs.
MARKS = {"docker": pytest.mark.system, "kubectl-stand-in": pytest.mark.slow}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in PLACES])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a Shell of this place, as another process of the operator would."""
    return PLACES[request.param](request, tmp_path)


@pytest_asyncio.fixture
async def shell(make: Make) -> AsyncIterator[Shell]:
    """A Shell of each place."""
    one = make()
    yield one
    if isinstance(one, RemoteShell):
        await one.aclose()


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    """Tells whether anything of a command still runs."""
    with witness_in(tmp_path) as one:
        yield one


async def _run(shell: Shell, command: str, **changes: float | str) -> Result:
    return await run_in(shell, replace(Action.shell(command), **changes))  # type: ignore[arg-type]


@every(
    ("command", "code", "category"),
    [
        ("true", 0, None),
        ("exit 1", 1, FailureCategory.RUNTIME),
        ("exit 2", 2, FailureCategory.RUNTIME),
        ("exit 77", 77, FailureCategory.RUNTIME),
        ("no-such-command-at-all", 127, FailureCategory.NOT_FOUND),
        ("/", 126, FailureCategory.PERMISSION),
        ("exit 137", 137, FailureCategory.RESOURCE),
        ("kill -KILL $$", 137, FailureCategory.RESOURCE),
        ("kill -TERM $$", 143, FailureCategory.RUNTIME),
        ("if", 2, FailureCategory.SYNTAX),
    ],
)
async def test_an_exit_code_is_told_with_its_category(
    shell: Shell, command: str, code: int, category: FailureCategory | None
) -> None:
    result = await _run(shell, command)
    assert (result.outcome, result.exit_code, result.category) == (Outcome.RAN, code, category)
    assert result.ok is (code == 0)


async def test_both_streams_are_kept_even_when_all_is_well(shell: Shell) -> None:
    begun = time.monotonic()
    result = await _run(shell, "echo out; echo careful >&2")
    took_s = time.monotonic() - begun
    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "careful\n")
    assert (result.stdout_bytes, result.stderr_bytes) == (4, 8)
    assert not result.truncated
    assert 0 < result.duration_s <= took_s


async def test_a_program_gets_its_words_as_they_are(shell: Shell) -> None:
    words = ["a b", "$HOME", "'", '"', "*", "", "\\", "\n", "`id`", "-n", "é", "a=b"]
    argv = ["printf", "%s|", *words]
    result = await run_in(shell, Action.program(argv))
    assert result.stdout == "".join(f"{word}|" for word in words)
    missing = await run_in(shell, Action.program(["no-such-program-at-all", "x"]))
    assert (missing.exit_code, missing.category) == (127, FailureCategory.NOT_FOUND)


async def test_no_quote_in_a_command_breaks_out_of_it(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "broken out"
    result = await _run(shell, f"printf '%s' \"it's\" '\"}}; touch '\\''{file}'\\''; {{'")
    assert result.ok
    assert result.stdout.startswith("it's\"}; touch '")
    assert not file.exists()


async def test_a_command_that_takes_too_long_is_ended(shell: Shell) -> None:
    result = await timed_out_after_start(
        lambda timeout_s: _run(shell, "echo started; sleep 300", timeout_s=timeout_s),
        lambda result: result.stdout,
    )
    assert (result.outcome, result.exit_code) == (Outcome.TIMED_OUT, 124)
    assert result.category is FailureCategory.TIMEOUT
    assert result.stdout == "started\n"
    assert result.duration_s >= 1.0


async def test_a_time_out_ends_the_whole_tree(shell: Shell, witness: Witness) -> None:
    result = await _run(shell, f"{witness.line}{STUBBORN}trap '' TERM; {FOREVER}", timeout_s=1.0)
    assert result.outcome is Outcome.TIMED_OUT
    assert not witness.is_held()


async def test_bytes_that_are_no_text_do_no_harm(shell: Shell) -> None:
    result = await _run(shell, r"printf 'a\377\376\000b'")
    assert result.stdout.startswith("a")
    assert result.stdout.endswith("b")
    assert result.stdout.encode()
    assert result.stdout_bytes == 5


async def test_output_without_an_end_is_cut_and_says_so(shell: Shell) -> None:
    result = await _run(shell, "echo first; yes | head -c 3000000; echo last")
    assert result.truncated
    assert len(result.stdout) < 100_000
    assert result.stdout.startswith("first\n")
    assert result.stdout.endswith("last\n")
    assert "bytes left out" in result.stdout
    assert result.stdout_bytes == 3_000_000 + len("first\nlast\n")
    assert not (await _run(shell, "echo short")).truncated


async def test_no_secret_of_ours_reaches_a_command(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hunter2")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/tmp/hunter2")
    result = await _run(shell, "env; cat /proc/self/environ")
    assert "hunter2" not in result.stdout
    assert "OPERATOR_SCRIPT" not in result.stdout
    assert "PATH=/usr/local/sbin:" in result.stdout
    assert "HOME=/nonexistent" in result.stdout


async def test_a_variable_that_an_action_names_goes_along_and_nothing_shows_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "it's\nhunter2 $HOME")
    action = replace(Action.shell('printf %s "$A_TOKEN"; ps -ef >&2'), passes=("A_TOKEN",))
    result = await run_in(shell, action)
    assert result.stdout == "it's\nhunter2 $HOME"
    assert "hunter2" not in result.stderr


async def test_a_command_runs_where_it_was_told_to(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "a folder's name"
    folder.mkdir()
    assert (await _run(shell, "pwd", cwd=str(folder))).stdout.strip() == str(folder)
    missing = await _run(shell, "pwd", cwd=str(tmp_path / "missing"))
    assert missing.outcome is Outcome.RAN
    assert not missing.ok


async def test_a_command_has_no_input_to_wait_for(shell: Shell) -> None:
    assert (await _run(shell, "cat", timeout_s=20.0)).ok


@every("command", ["", "\x00", "\ud800", "'", "echo " + "x" * 300_000])
async def test_nothing_that_is_asked_for_raises(shell: Shell, command: str) -> None:
    assert (await _run(shell, command)).outcome is Outcome.RAN


async def test_the_same_command_runs_anew_each_time(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "count"
    for _ in range(2):
        await _run(shell, f"echo x >> {file}")
    assert file.read_text() == "x\nx\n"


async def test_bytes_are_heard_as_they_come(shell: Shell, tmp_path: Path) -> None:
    heard: list[tuple[int, bytes]] = []
    asked = tmp_path / "go on"
    job = replace(new_job(30.0), watch=lambda stream, data: heard.append((stream, data)))
    command = f"echo one; echo two >&2; while [ ! -e '{asked}' ]; do sleep 0.1; done; echo three"
    running = asyncio.ensure_future(shell.run(Action.shell(command), job))
    await eventually(lambda: (1, b"one\n") in heard and (2, b"two\n") in heard)
    assert not running.done()
    asked.touch()
    result = await running
    assert b"".join(data for stream, data in heard if stream == 1) == b"one\nthree\n"
    assert (result.stdout, result.stderr) == ("one\nthree\n", "two\n")


async def test_whoever_stops_waiting_ends_the_whole_tree(shell: Shell, witness: Witness) -> None:
    command = f"{witness.line}{STUBBORN}{FOREVER}"
    running = asyncio.ensure_future(shell.run(Action.shell(command), new_job(60.0)))
    await eventually(witness.has_heard)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # Its whole tree is gone when the wait is over.
    assert not witness.is_held()


async def test_a_job_runs_once_however_often_it_is_asked_for(
    shell: Shell, make: Make, tmp_path: Path
) -> None:
    file, job = tmp_path / "count", new_job()
    action = Action.shell(f"echo x >> {file}; echo said; exit 5")
    first = await shell.run(action, job)
    again = await shell.run(action, job)
    other = make()
    recovered = await other.recover(action, job)
    if isinstance(other, RemoteShell):
        await other.aclose()
    assert file.read_text() == "x\n"
    for result in (first, again, recovered):
        assert (result.outcome, result.exit_code, result.stdout) == (Outcome.RAN, 5, "said\n")


async def test_two_that_ask_for_one_job_at_once_get_one_run(shell: Shell, tmp_path: Path) -> None:
    file, job = tmp_path / "count", new_job()
    action = Action.shell(f"echo x >> {file}; sleep 0.3; echo said")
    results = await asyncio.gather(*(shell.run(action, job) for _ in range(3)))
    assert file.read_text() == "x\n"
    assert {(one.outcome, one.stdout) for one in results} == {(Outcome.RAN, "said\n")}


async def test_who_recovers_a_job_that_still_runs_waits_for_it(
    shell: Shell, make: Make, tmp_path: Path
) -> None:
    begun, asked, job = tmp_path / "begun", tmp_path / "go on", new_job(60.0)
    wait = f"while [ ! -e '{asked}' ]; do sleep 0.1; done"
    action = Action.shell(f"echo one; touch {begun}; {wait}; echo two; echo e >&2; exit 7")
    running = asyncio.ensure_future(shell.run(action, job))
    await eventually(begun.exists)
    other = make()
    heard: list[bytes] = []
    watching = replace(job, watch=lambda stream, data: heard.append(data))
    recovering = asyncio.ensure_future(other.recover(action, watching))
    await eventually(lambda: heard)
    assert not recovering.done()
    asked.touch()
    for result in (await recovering, await running):
        assert (result.outcome, result.exit_code) == (Outcome.RAN, 7)
        assert (result.stdout, result.stderr) == ("one\ntwo\n", "e\n")
    if isinstance(other, RemoteShell):
        await other.aclose()


async def test_to_recover_what_never_started_starts_nothing(shell: Shell, tmp_path: Path) -> None:
    file, job = tmp_path / "count", new_job()
    action = Action.shell(f"echo x >> {file}")
    recovered = await shell.recover(action, job)
    assert recovered.outcome in (Outcome.UNKNOWN, Outcome.CANCELLED)
    assert recovered.stderr
    assert not file.exists()


async def test_a_time_out_is_told_to_whoever_recovers_it(shell: Shell) -> None:
    job = Job(secrets.token_hex(32), 0.5)
    action = Action.shell("echo begun; sleep 60")
    await shell.run(action, job)
    result = await shell.recover(action, job)
    assert (result.outcome, result.exit_code) == (Outcome.TIMED_OUT, 124)
    assert result.stdout == "begun\n"


async def test_what_is_left_behind_does_not_keep_a_command(shell: Shell, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    # It also ends when the folder is gone before it has looked.
    left = f"while [ -d '{tmp_path}' ] && [ ! -e '{asked}' ]; do sleep 0.1; done"
    result = await _run(shell, f"({left}) & echo done", timeout_s=30.0)
    asked.touch()
    assert (result.outcome, result.stdout) == (Outcome.RAN, "done\n")
    # Its sleep may have just ended; the shell around it has not.
    assert result.left or re.search(r"\d:(ba|da)?sh\b", str(result.data.get("left")))


async def test_many_commands_at_once_do_not_mix(shell: Shell) -> None:
    results = await asyncio.gather(*(_run(shell, f"echo {n}; echo {n} >&2") for n in range(14)))
    assert [(one.stdout, one.stderr) for one in results] == [
        (f"{number}\n", f"{number}\n") for number in range(14)
    ]
