"""The script itself, in every POSIX shell that this machine has."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.errors import StoreError
from operator_sre.executor.jobs import Spool
from operator_sre.executor.transports.remote import RemoteShell
from operator_sre.executor.transports.script import Called, Hear, Wire
from tests.executor.jobs import new_job
from tests.executor.transports.witness import witness_in
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio
SHELLS = {
    "sh": ("/bin/sh",),
    "dash": ("dash",),
    "bash": ("bash", "--posix"),
    "busybox": ("busybox", "sh"),
    "ksh": ("ksh",),
    "mksh": ("mksh",),
}


# Those that are here, by where they are; the shells of PipeWire have a PATH of their own.
HERE = {
    name: (path, *words[1:]) for name, words in SHELLS.items() if (path := shutil.which(words[0]))
}
# Each once: `sh` is often another name of one of them.
FOUND = sorted(
    {(Path(path).resolve(), *words): name for name, (path, *words) in HERE.items()}.values()
)
# So much output takes long; one shell shows it, the others in long runs.
ONE_SHELL = [FOUND[0], *(pytest.param(name, marks=pytest.mark.slow) for name in FOUND[1:])]


@pytest.mark.system
async def test_every_shell_is_tried() -> None:
    assert [name for name, words in SHELLS.items() if shutil.which(words[0]) is None] == []


class PipeWire:
    """A shell of this machine at the other end of two pipes."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = argv

    async def reach(self) -> Called:
        return Called()

    async def call(self, script: bytes, hear: Hear, *, within_s: float) -> Called:
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin"},
        )
        assert process.stdin is not None

        async def read(number: int, stream: asyncio.StreamReader | None) -> None:
            while stream is not None and (data := await stream.read(65536)):
                hear(number, data)

        process.stdin.write(script)
        process.stdin.close()
        try:
            await asyncio.gather(read(1, process.stdout), read(2, process.stderr))
        except asyncio.CancelledError:
            process.kill()
            # Whoever follows for it may hold the pipes a little longer.
            process._transport.close()  # type: ignore[attr-defined]
            raise
        finally:
            await process.wait()
        return Called()

    async def identify(self) -> str:
        return "here"

    async def aclose(self) -> None:
        pass


@pytest.fixture(params=FOUND)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> RemoteShell:
    wire: Wire = PipeWire(HERE[request.param])
    return RemoteShell(wire, "here", Spool(tmp_path / "spool"))


async def test_a_command_runs_once_and_is_remembered(shell: RemoteShell, tmp_path: Path) -> None:
    job, file = new_job(), tmp_path / "count"
    action = Action.shell(f"echo x >> {file}; echo 'a  b'; echo \"it's\" >&2; exit 3")
    results = [
        *await asyncio.gather(shell.run(action, job), shell.run(action, job)),
        await shell.recover(action, job),
    ]
    assert file.read_text() == "x\n"
    for result in results:
        assert (result.outcome, result.exit_code) == (Outcome.RAN, 3)
        assert (result.stdout, result.stderr) == ("a  b\n", "it's\n")


@pytest.mark.parametrize("shell", ONE_SHELL, indirect=True)
async def test_a_secret_is_given_there_and_is_in_no_list_and_no_file(
    shell: RemoteShell, tmp_path: Path
) -> None:
    secret = f'it\'s a "secret" {uuid4().hex}\nof two lines'
    asked: list[str] = []

    def gives(action: Action) -> dict[str, str]:
        asked.append(action.command)
        return {"DB_PASSWORD": secret}

    shell = RemoteShell(shell._wire, "here", Spool(tmp_path / "spool"), gives=gives)
    with witness_in(tmp_path) as witness:
        action = Action.shell(f'{witness.line}printf %s "$DB_PASSWORD" | wc -c; sleep 60')
        job = new_job(60.0)
        running = asyncio.ensure_future(shell.run(action, job))
        await eventually(witness.has_heard)
        key = secret.split()[3].encode()
        for told in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                assert key not in told.read_bytes()
        folders = [Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]
        kept = [one / f"operator-sre-{os.getuid()}" / job.id for one in folders]
        files = [file for one in kept if one.exists() for file in one.rglob("*") if file.is_file()]
        assert files
        assert not [file for file in files if key in file.read_bytes()]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    said = await shell.run(Action.shell('printf %s "$DB_PASSWORD"'), new_job())
    assert said.stdout == secret
    before = len(asked)
    assert (await shell.recover(action, job)).outcome is Outcome.CANCELLED
    assert len(asked) == before, "what looks for it is given nothing"


async def test_who_has_no_secret_to_give_refuses(tmp_path: Path) -> None:
    def gives(action: Action) -> dict[str, str]:
        raise StoreError("The secret 'db' is not in the keyring any more.")

    wire = PipeWire(HERE[FOUND[0]])
    shell = RemoteShell(wire, "here", Spool(tmp_path / "spool"), gives=gives)
    refused = await shell.run(Action.shell(f"touch {tmp_path}/made"), new_job())
    assert (refused.outcome, "keyring" in refused.stderr) == (Outcome.REFUSED, True)
    assert not (tmp_path / "made").exists()


async def test_a_limit_ends_what_resists(shell: RemoteShell, tmp_path: Path) -> None:
    with witness_in(tmp_path) as witness:
        resists = "trap '' TERM; (setsid sleep 60 &); while :; do sleep 1; done"
        action = Action.shell(f"{witness.line}echo begun; {resists}")
        result = await shell.run(action, new_job(0.5))
        assert (result.outcome, result.exit_code) == (Outcome.TIMED_OUT, 124)
        assert (result.stdout, result.stderr) == ("begun\n", "")
        assert not witness.is_held()


async def test_who_stops_waiting_ends_it(shell: RemoteShell, tmp_path: Path) -> None:
    with witness_in(tmp_path) as witness:
        action, job = Action.shell(f"{witness.line}sleep 60"), new_job(60.0)
        running = asyncio.ensure_future(shell.run(action, job))
        await eventually(witness.has_heard)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not witness.is_held()
    assert (await shell.recover(action, job)).outcome is Outcome.CANCELLED


@pytest.mark.parametrize("shell", ONE_SHELL, indirect=True)
async def test_too_much_output_is_cut_in_the_middle(shell: RemoteShell) -> None:
    lines = "yes 'a line of words' | head -c 110000000"
    command = f"echo first; {lines}; echo the last line; echo careful >&2"
    result = await shell.run(Action.shell(command), new_job(60.0))
    assert result.ok
    assert result.truncated
    assert result.stdout.startswith("first\na line of words\n")
    assert result.stdout.endswith("a line of words\nthe last line\n")
    assert result.stderr == "careful\n"
    assert 109_000_000 < result.stdout_bytes <= 110_000_021
