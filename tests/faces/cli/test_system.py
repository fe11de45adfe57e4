"""`operator system state`: where we are, for people and for programs."""

from __future__ import annotations

import getpass
import sys
import venv
from pathlib import Path

from tests.e2e.home import Home

KEYS = {"cwd", "venv_active", "venv_path", "user", "home", "python_executable"}


def test_programs_get_exactly_these_facts(home: Home) -> None:
    told = home.run("system", "state", "--json", VIRTUAL_ENV="/srv/app/.venv", HOME="/home/ada")
    assert told.json == {
        "schema_version": "1.0.0",
        "cwd": str(home.cwd),
        "venv_active": True,
        "venv_path": "/srv/app/.venv",
        "user": getpass.getuser(),
        "home": "/home/ada",
        "python_executable": sys.executable,
    }
    assert not home.path.exists(), "looking makes no home"


def test_people_get_a_line_for_each(home: Home) -> None:
    told = home.run("system", "state")
    assert (told.code, told.err) == (0, "")
    assert {line.split()[0] for line in told.out.splitlines()} == KEYS
    assert f"cwd                {home.cwd}\n" in told.out


def test_a_name_that_a_terminal_would_obey_is_shown_instead(home: Home, tmp_path: Path) -> None:
    evil = tmp_path / "a\x1b[31mb"
    venv.create(evil / ".venv", with_pip=False, symlinks=True)
    told = home.run("system", "state", VIRTUAL_ENV=str(evil / ".venv"))
    assert "\x1b" not in told.out
    assert "a\\x1b[31mb/.venv" in told.out
