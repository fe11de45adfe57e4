"""Installing exact versions into a virtual environment that is known is no high risk."""

from __future__ import annotations

import os
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_sre.gate import Policy, judge
from operator_sre.venv import enter_venv

INDEX, LINKS = "index", "links"
PINNED = (
    "pip install requests==2.31.0",
    "pip install --no-input --only-binary=:all: requests==2.31.0 urllib3==2.0.7",
    "pip3 install -q 'uvicorn[standard]==0.30.1'",
)
# Each of them could install something else than what is named, or put it elsewhere.
OPEN = (
    "pip install requests",
    "pip install 'requests>=2.31.0'",
    "pip install 'requests==2.*'",
    "pip install requests==2.31.0 idna",
    "pip install -r requirements.txt",
    "pip install -e .",
    "pip install .",
    "pip install ./requests==2.31.0",
    "pip install https://example.com/requests-2.31.0.tar.gz",
    "pip install 'requests @ https://example.com/x.whl'",
    "pip install git+https://example.com/x.git",
    f"pip install --{INDEX}-url http://10.0.0.9/simple requests==2.31.0",
    "pip install -i http://10.0.0.9/simple requests==2.31.0",
    f"pip install --extra-{INDEX}-url=http://10.0.0.9/ requests==2.31.0",
    f"pip install --find-{LINKS} /tmp requests==2.31.0",
    "pip install --target /usr/lib/python3 requests==2.31.0",
    "pip install --prefix=/usr requests==2.31.0",
    "pip install --user requests==2.31.0",
    "pip install --break-system-packages requests==2.31.0",
    "pip install --force-reinstall requests==2.31.0",
    "pip install --config-settings=x=y requests==2.31.0",
    "pip install requests==$VERSION",
    "pip install *==1",
    "pip --proxy http://10.0.0.9 install requests==2.31.0",
    "pip install",
    "pip uninstall requests==2.31.0",
    "pip download requests==2.31.0",
    "PIP_INDEX_URL=http://10.0.0.9 pip install requests==2.31.0",
)


def _verdict(command: str, venv: str = "/srv/app/.venv", *, person: bool = False) -> Verdict:
    return judge(replace(Action.shell(command), venv=venv), Policy(), person=person)


@pytest.mark.parametrize("person", [True, False], ids=["person", "agent"])
@pytest.mark.parametrize("command", PINNED)
def test_a_pinned_package_is_a_small_risk(command: str, *, person: bool) -> None:
    inside = _verdict(command, person=person)
    assert (inside.level, inside.risk, inside.score) == (Level.REVIEW, Risk.MEDIUM, 20)
    assert inside.reversible
    # The same into the Python of the system is another matter.
    assert _verdict(command, "", person=person).risk is Risk.HIGH


@pytest.mark.parametrize("command", OPEN)
def test_whatever_could_be_something_else_stays_a_high_risk(command: str) -> None:
    verdict = _verdict(command)
    assert verdict.level is Level.REVIEW
    assert verdict.risk >= Risk.HIGH, verdict.rules
    assert not any("exact versions" in rule.justification for rule in verdict.rules)


@pytest.mark.parametrize("command", [*PINNED, *OPEN[:9]])
def test_the_pip_of_an_environment_is_judged_by_what_it_installs(command: str) -> None:
    by_path = _verdict(f"/srv/app/.venv/bin/{command}", "")
    assert by_path.risk is (Risk.MEDIUM if command in PINNED else Risk.HIGH)
    # The next command of the line is not inside of that environment.
    line = f"/srv/app/.venv/bin/pip install a==1 && {PINNED[0]}"
    assert _verdict(line, "").risk is Risk.HIGH


def test_a_line_that_activates_a_known_environment_runs_inside_of_it(tmp_path: Path) -> None:
    venv.create(tmp_path / ".venv", with_pip=False, symlinks=True)
    there = str(tmp_path / ".venv")
    for start in (f"source {there}", f". {there}", "source .venv", "  . ./.venv"):
        for sign in (" && ", "; ", "\n"):
            line = f"{start}/bin/activate{sign}{PINNED[0]}"
            action = enter_venv(replace(Action.shell(line), cwd=str(tmp_path)))
            assert (action.venv, action.command) == (there, PINNED[0])
    assert judge(action, Policy()).risk is Risk.MEDIUM


@pytest.mark.parametrize("what", ["absent", "no environment", "open to others", "a shadow"])
def test_an_environment_that_is_not_known_is_not_entered(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "venv"
    if what == "no environment":
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "activate").write_text("rm -rf /\n")
    elif what != "absent":
        venv.create(folder, with_pip=False, symlinks=True)
        if what == "a shadow":
            (folder / "bin" / "ls").write_text("#!/bin/sh\n")
        else:
            os.chmod(folder / "bin", 0o777)  # noqa: S103, PTH101
    action = Action.shell(f"source {folder}/bin/activate && {PINNED[0]}")
    assert enter_venv(action) == action
    assert judge(action, Policy()).risk is Risk.HIGH


@pytest.mark.parametrize(
    "line",
    [
        "source venv/bin/activate || pip install a==1",
        "source venv/bin/activate & pip install a==1",
        "source venv/bin/activate > /etc/x && pip install a==1",
        "source venv/bin/activate.sh && pip install a==1",
        "source $X/bin/activate && pip install a==1",
        "echo; source venv/bin/activate && pip install a==1",
        "source venv/bin/activate",
    ],
)
def test_any_other_line_is_judged_as_it_stands(tmp_path: Path, line: str) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    action = replace(Action.shell(line), cwd=str(tmp_path))
    assert enter_venv(action) == action


def test_an_action_elsewhere_is_left_alone(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    line = f"source {tmp_path}/venv/bin/activate && ls"
    away = Action.shell(line, target="db-1")
    tool = Action("log_message", {"command": line})
    assert [enter_venv(away), enter_venv(tool)] == [away, tool]
