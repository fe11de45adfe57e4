"""What is told of this machine, and what is said before Python runs outside of an environment."""

from __future__ import annotations

import getpass
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from operator_protocols.errors import NotFoundError
from operator_sre.app.system import SystemState, system_state, venv_warnings


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    return folder


def test_the_state_is_that_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = system_state({"HOME": "/home/ada", "VIRTUAL_ENV": "/srv/app/.venv"})
    assert asdict(state) == {
        "cwd": str(tmp_path),
        "venv_active": True,
        "venv_path": "/srv/app/.venv",
        "user": getpass.getuser(),
        "home": "/home/ada",
        "python_executable": sys.executable,
    }


def test_one_nearby_is_told_and_not_active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _made(tmp_path / ".venv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    state = system_state({"HOME": "/home/ada"})
    assert isinstance(state, SystemState)
    assert (state.venv_active, state.venv_path) == (False, str(made))


def test_a_directory_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(NotFoundError, match="no longer exists"):
        system_state({})


def test_the_environment_of_a_person_is_the_first_to_be_named(tmp_path: Path) -> None:
    near = _made(tmp_path / "venv")

    def warned(venv: str = "", **environ: str) -> tuple[str, ...]:
        return venv_warnings("pip install x", cwd=str(tmp_path), venv=venv, environ=environ)

    (sentence,) = warned(HOME="/home/ada")
    assert f"--venv {near}" in sentence
    (sentence,) = warned(HOME="/home/ada", VIRTUAL_ENV="/home/ada/its own")
    assert "--venv '/home/ada/its own'" in sentence
    assert warned(str(near)) == ()
