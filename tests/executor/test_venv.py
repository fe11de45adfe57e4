"""A virtual environment is entered by variables, and hides nothing of the system."""

from __future__ import annotations

import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.verdict import Level
from operator_sre.executor.programs import Programs
from operator_sre.executor.spool import Spool
from operator_sre.executor.transports.local import ENVIRONMENT, LocalShell
from operator_sre.executor.venv import shadowed_by, with_venv
from operator_sre.gate import Policy, judge
from tests.executor.jobs import run_in


@pytest.fixture
def made(tmp_path: Path) -> Path:
    folder = tmp_path / ".venv"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


def test_its_programs_come_first(made: Path) -> None:
    variables = with_venv(ENVIRONMENT, str(made))
    assert variables["VIRTUAL_ENV"] == str(made)
    assert variables["PATH"] == f"{made}/bin:{ENVIRONMENT['PATH']}"
    assert not shadowed_by(str(made), ENVIRONMENT["PATH"])


async def run(command: str, made: Path, tmp_path: Path) -> tuple[Outcome, int | None, str, str]:
    shell = LocalShell(Programs(Spool(tmp_path / "spool")))
    action = replace(Action.shell(command), venv=str(made), cwd=str(tmp_path))
    result = await run_in(shell, action)
    if result.exit_code == 126:
        assert result.category is FailureCategory.PERMISSION
    return result.outcome, result.exit_code, result.stdout, result.stderr


@pytest.mark.asyncio
async def test_a_command_runs_inside_of_it(made: Path, tmp_path: Path) -> None:
    ask = "python -c 'import sys; print(sys.prefix)'"
    assert await run(ask, made, tmp_path) == (Outcome.RAN, 0, f"{made}\n", "")
    assert str(made) != sys.prefix


@pytest.mark.asyncio
async def test_one_that_hides_a_program_is_not_used(made: Path, tmp_path: Path) -> None:
    (made / "bin" / "ls").write_text("#!/bin/sh\necho caught\n")
    (made / "bin" / "ls").chmod(0o755)
    outcome, code, out, error = await run("ls", made, tmp_path)
    assert (outcome, code, out) == (Outcome.RAN, 126, "")
    assert error == f"{made} would hide 'ls' of the system."


@pytest.mark.asyncio
async def test_any_other_folder_is_none(tmp_path: Path) -> None:
    assert (await run("ls", tmp_path, tmp_path))[1] == 126


def test_only_in_this_form_is_it_safe() -> None:
    inside = replace(Action.shell("pip list"), venv="/srv/app/.venv")
    assert judge(inside, Policy()).level is Level.SAFE
    assert judge(replace(inside, venv="/tmp/x"), Policy()).level is Level.REVIEW
    assert judge(replace(inside, venv="/srv/../.venv"), Policy()).level is Level.REVIEW
    assert inside.digest != Action.shell("pip list").digest
    for line in ("source .venv/bin/activate", ". .venv/bin/activate && pip list"):
        assert judge(Action.shell(line), Policy()).level is Level.REVIEW
