"""Commands on this machine: nothing that a file configures makes a look run something else."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.verdict import Level
from operator_sre.enforcement import why_not_confined
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import (
    OUTPUT_BYTES_MAX,
    PreparedProgram,
    Program,
    Programs,
)
from operator_sre.executor.transports.local import (
    ENVIRONMENT,
    SHELL,
    LocalShell,
)
from operator_sre.gate import Policy, judge
from operator_sre.processes.runner.wire import Bounds
from tests.executor.jobs import new_job, run_in

pytestmark = pytest.mark.asyncio


async def _run(folder: Path, command: str) -> Result:
    shell = LocalShell(Programs(Spool(folder / "spool")))
    return await run_in(shell, replace(Action.shell(command), cwd=str(folder)))


def _git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=ada", "-c", "user.email=ada@localhost")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(SHELL == "/bin/sh", reason="there is no bash on this machine")
async def test_what_only_bash_understands_runs(tmp_path: Path) -> None:
    line = "comm -12 <(printf '1\\n2\\n') <(printf '2\\n3\\n') |& cat"
    assert judge(Action.shell(line), Policy()).level is Level.SAFE
    result = await _run(tmp_path, line)
    assert (result.exit_code, result.stdout) == (0, "2\n")


async def test_a_prepared_program_runs_when_it_is_started_and_never_when_dropped(
    tmp_path: Path,
) -> None:
    programs = Programs(Spool(tmp_path / "spool"))
    mark = tmp_path / "runs"
    program = Program((SHELL, "-c", f"echo ran >> {mark}"), {}, bounds=Bounds(writable=None))
    await programs.run(Program(("/bin/true",), {}), new_job())  # the runner is up by then
    dropped = programs.prepare(program, new_job())
    assert isinstance(dropped, PreparedProgram)
    dropped.drop()
    await programs.run(Program(("/bin/true",), {}), new_job())
    job = new_job()
    started = programs.prepare(program, job)
    assert started is not None
    assert not mark.exists()
    result = await started.run(job)
    assert (result.exit_code, mark.read_text()) == (0, "ran\n")


@pytest.mark.skipif(bool(why_not_confined()), reason=why_not_confined() or "-")
async def test_a_command_in_the_boundary_of_a_rig_is_given_no_secret(tmp_path: Path) -> None:
    gives = {"TOKEN": "word", "PGHOST": "elsewhere"}  # the second one lifts the limit of hosts
    shell = LocalShell(Programs(Spool(tmp_path / "spool")), gives=lambda action: gives)
    action = Action.shell('echo "$TOKEN$PGHOST"')
    for confinement, shown in ((Confinement(), "wordelsewhere"), (Confinement(inside="shop"), "")):
        job = replace(new_job(), confinement=confinement)
        assert (await shell.run(action, job)).stdout == f"{shown}\n"
        prepared = shell.prepare(action, replace(new_job(), confinement=confinement))
        assert (prepared is None) is bool(shown)
        if prepared is not None:
            assert (await prepared.run(new_job())).stdout == "\n"


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A repository whose configuration runs a script; the script leaves `sprung` behind."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    folder = tmp_path / "repository"
    folder.mkdir()
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path / 'sprung'}\n")
    script.chmod(0o755)
    _git(folder, "init", "-q")
    (folder / "file").write_text("one\n")
    _git(folder, "add", "file")
    _git(folder, "commit", "-q", "-m", "first")
    (folder / "file").write_text("one\ntwo\n")
    for name in ("core.fsmonitor", "core.pager", "diff.external", "gpg.program"):
        _git(folder, "config", name, str(script))
    return folder


def _sprung(trap: Path) -> bool:
    return (trap.parent / "sprung").exists()


async def test_the_trap_is_one(trap: Path) -> None:
    _git(trap, "diff")
    assert _sprung(trap)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("git status --short", " M file"),
        ("git diff", "+two"),
        ("git diff HEAD -- file", "--- a/file"),
        ("git log -p --show-signature", "+one"),
        ("git show HEAD:file", "one"),
    ],
)
async def test_a_repository_runs_nothing_of_its_own(trap: Path, command: str, says: str) -> None:
    result = await _run(trap, command)
    assert (result.exit_code, says in result.stdout) == (0, True), result
    assert not _sprung(trap)


async def test_a_repository_is_not_written_to_and_reaches_nobody(trap: Path) -> None:
    index = (trap / ".git" / "index").read_bytes()
    (trap / "file").touch()
    assert (await _run(trap, "git status")).ok
    assert (trap / ".git" / "index").read_bytes() == index
    refused = await _run(trap, f"git ls-remote file://{trap}")
    assert "not allowed" in refused.stderr


async def test_every_setting_of_git_has_a_name_and_a_value() -> None:
    count = int(ENVIRONMENT["GIT_CONFIG_COUNT"])
    places = [name for name in ENVIRONMENT if name.startswith(("GIT_CONFIG_KEY", "GIT_CONFIG_VAL"))]
    assert len(places) == 2 * count
    assert all(ENVIRONMENT[f"GIT_CONFIG_KEY_{place}"] for place in range(count))


async def test_a_command_has_an_empty_input_and_no_terminal(tmp_path: Path) -> None:
    result = await _run(tmp_path, "readlink /proc/self/fd/0; cat; tty; : < /dev/tty")
    assert result.stdout == "/dev/null\nnot a tty\n"
    assert "/dev/tty" in result.stderr


async def test_no_more_is_kept_than_was_promised(tmp_path: Path) -> None:
    result = await _run(tmp_path, f"head -c {4 * OUTPUT_BYTES_MAX} /dev/zero | tr '\\0' x")
    assert result.truncated
    assert len(result.stdout) <= OUTPUT_BYTES_MAX + 200
