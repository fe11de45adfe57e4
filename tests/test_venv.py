"""A virtual environment is entered by variables, and hides nothing ."""

from __future__ import annotations

import os
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.verdict import Level
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import ENVIRONMENT, LocalShell
from operator_sre.gate import Policy, judge
from operator_sre.venv import (
    active_venv,
    found_venv,
    not_ours,
    shadowed_by,
    warning_for,
    with_venv,
)
from tests.every import every
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
    if result.outcome is Outcome.REFUSED:
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
    assert (outcome, code, out) == (Outcome.REFUSED, None, "")
    assert error == f"{made} would shadow the system's 'ls'."


@pytest.mark.asyncio
async def test_any_other_folder_is_none(tmp_path: Path) -> None:
    assert (await run("ls", tmp_path, tmp_path))[0] is Outcome.REFUSED


def test_only_in_this_form_is_it_safe() -> None:
    inside = replace(Action.shell("pip list"), venv="/srv/app/.venv")
    assert judge(inside, Policy(), person=True).level is Level.SAFE
    for other in ("/tmp/x", "/srv/../.venv"):
        named = replace(inside, venv=other)
        assert judge(named, Policy(), person=True).level is Level.REVIEW
        assert judge(named, Policy()).level is Level.REVIEW
    assert inside.digest != Action.shell("pip list").digest
    for line in ("source .venv/bin/activate", ". .venv/bin/activate && pip list"):
        assert judge(Action.shell(line), Policy()).level is Level.REVIEW


@every("line", ["pip list", "jq . /srv/app/a.json", "kubectl get pods", "uptime", "true"])
def test_an_agent_runs_no_program_of_an_environment_by_itself(line: str) -> None:
    inside = replace(Action.shell(line), venv="/srv/app/.venv")
    verdict = judge(inside, Policy())
    assert (verdict.level, [one.id for one in verdict.rules]) == (Level.REVIEW, ["venv"])
    assert judge(Action.shell(line), Policy()).level is Level.SAFE
    assert judge(inside, Policy(), person=True).level is Level.SAFE


@pytest.mark.asyncio
async def test_one_that_others_may_change_is_not_used(made: Path, tmp_path: Path) -> None:
    assert not_ours(str(made)) == ""
    program = made / "bin" / "helpful"
    program.write_text("#!/bin/sh\necho helped\n")
    program.chmod(0o755)
    assert (await run("helpful", made, tmp_path))[2] == "helped\n"
    for path in (program, made / "bin", made / "pyvenv.cfg", made, made / "lib", made.parent):
        before = path.stat().st_mode
        path.chmod(before | 0o002)
        outcome, _, out, error = await run("helpful", made, tmp_path)
        path.chmod(before)
        assert (outcome, out) == (Outcome.REFUSED, ""), path
        assert error == f"Other users may write to {str(path)!r}."
    assert not_ours(str(made)) == ""
    (made / "bin" / "gone").symlink_to(tmp_path / "nowhere")
    assert "cannot be read" in not_ours(str(made))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_one_of_another_user_is_not_used(made: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "tool"
    theirs.write_text("#!/bin/sh\n")
    theirs.chmod(0o755)
    (made / "bin" / "tool").symlink_to(theirs)
    assert not_ours(str(made)) == ""
    for path in (theirs, made / "bin", made):
        os.chown(path, 12_345, -1)
        assert not_ours(str(made)) == f"{str(path)!r} belongs to another user (12345)."
        os.chown(path, 0, -1)
    made.chmod(0o775)
    assert not_ours(str(made)) == "", "the group of root is the system's"
    os.chown(made, 0, 12_345)
    assert "may write" in not_ours(str(made))


def test_one_is_active_by_its_variable_or_as_that_of_this_python() -> None:
    def active(prefix: str, **environ: str) -> str:
        return active_venv(environ, prefix=prefix, base_prefix="/usr")

    assert active("/usr") == ""
    assert active("/srv/.venv") == "/srv/.venv"
    assert active("/srv/.venv", VIRTUAL_ENV="/home/ada/env") == "/home/ada/env"
    assert active("/usr", VIRTUAL_ENV="") == ""


@pytest.mark.parametrize("name", [".venv", "venv", "env", "virtualenv"])
def test_the_nearest_one_above_is_found(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "project" / "deep" / "inside"
    inside.mkdir(parents=True)
    assert found_venv(inside, home=tmp_path) == ""
    above = tmp_path / "project" / name
    venv.create(above, with_pip=False, symlinks=True)
    assert found_venv(inside, home=tmp_path) == str(above)
    (inside / name).mkdir()
    assert found_venv(inside, home=tmp_path) == str(above), "a folder of that name is none"


def test_looking_for_one_stays_within_the_project_and_the_home(tmp_path: Path) -> None:
    outside = tmp_path / "venv"
    venv.create(outside, with_pip=False, symlinks=True)
    inside = tmp_path / "project" / "inside"
    inside.mkdir(parents=True)
    assert found_venv(inside, home=Path("/nonexistent")) == str(outside)
    assert found_venv(inside, home=tmp_path / "project") == ""
    (tmp_path / "project" / ".git").mkdir()
    assert found_venv(inside, home=Path("/nonexistent")) == ""
    deep = tmp_path.joinpath(*"d" * 40)
    deep.mkdir(parents=True)
    assert found_venv(deep, home=Path("/nonexistent")) == "", "it gives up after some folders"


WARNED = (
    *(
        "pip install requests",
        "pip3 install -r x.txt",
        "pip3.11 uninstall -y x",
        "pip -q install x",
    ),
    *("sudo pip install x", "sudo -u ada -H pip install x", "env A=1 pip install x"),
    *("python -m pip install x", "python3 -Im pip install x", "python3 -mpip install x"),
    *("/usr/bin/python3 x.py", "python x.py --version", "python3.11 -c 'import x'"),
    *("python -u -W ignore x.py", "python3 -m pytest -q", "python - < x.py", "cat x.py | python"),
    *("cd /srv && pip install x", "ls; python x.py", "ls\npython x.py", "(python x.py)"),
    *("if true; then pip install x; fi", "DEBUG=1 python x.py", "nice -n 5 python x.py"),
    *("python x.py > out 2>&1", "pip \\\ninstall x"),
)
NOT_WARNED = (
    *("pipx install x", "python --version", "python3 -V", "pip --version", "pip list", "pip -h"),
    *("python -m venv .venv", "python3 -m virtualenv x", "python -m json.tool x", "pip install -h"),
    *("python3 -m http.server", "python -m pip list", ".venv/bin/pip install x", "ls"),
    *("/srv/app/venv/bin/python x.py", "source .venv/bin/activate && pip install x"),
    *(". venv/bin/activate; python x.py", "PATH=/srv/venv/bin:$PATH python x.py"),
    *("echo pip install x", "echo 'python x.py'", "grep pip install", "uv pip install x"),
    *("ls # ; pip install x", "apt install python3-pip", "pip install 'open", "which python"),
    *("", "pythonic x", "echo " + "python x.py; " * 5_000),
)


@every("command", WARNED)
def test_python_without_one_is_warned_of(command: str) -> None:
    assert "--venv '/srv/my app/.venv'" in warning_for(command, "/srv/my app/.venv")
    assert "python3 -m venv .venv" in warning_for(command, "")


@every("command", NOT_WARNED)
def test_what_needs_none_is_left_alone(command: str) -> None:
    assert warning_for(command, "/srv/.venv") == ""


def test_a_warning_is_a_sentence_with_the_next_step() -> None:
    assert warning_for("pip3 install x", "/srv/.venv") == (
        "'pip3' runs without a virtual environment. "
        "To run it inside of '/srv/.venv', add: --venv /srv/.venv"
    )
