"""Which programs need a virtual environment, and which one a line names."""

from __future__ import annotations

import pytest

from operator_sre.shell.pythons import SYSTEM_FOLDERS, needs_venv, venv_in
from tests.every import every


@every(
    ("command", "program"),
    [
        ("pip install requests", "pip"),
        ("pip3.11 install requests", "pip3.11"),
        ("python script.py", "python"),
        ("/usr/bin/python3 -m pytest", "python3"),
        ("sudo -u x pip install y", "pip"),
        ("sudo pip install y", "pip"),
        ("python x.py &", "python"),
        ("pip list", ""),
        ("PATH=/srv/v/bin:$PATH python x.py", ""),
        ("pip install 'x", ""),
        ("x " * 5000 + "; pip install x", ""),
        ("env A=1 B=2 python x.py", "python"),
        ("cd /srv && pip install -r requirements.txt", "pip"),
        ("python --version", ""),
        ("python3 -m venv .venv", ""),
        ("pipx run black", ""),
        ("apt-get install python3", ""),
        ("ls", ""),
        ("", ""),
        ("&& ; |", ""),
    ],
)
def test_which_commands_need_one(command: str, program: str) -> None:
    assert needs_venv(command) == program


@pytest.mark.parametrize(
    ("command", "venv"),
    [
        (".venv/bin/pip install x", ".venv"),
        ("/srv/app/env/bin/python x.py", "/srv/app/env"),
        ("source .venv/bin/activate && pip install x", ".venv"),
        (". /srv/v/bin/activate; python x.py", "/srv/v"),
        ("/usr/bin/python3 x.py", ""),
        ("pip install x", ""),
    ],
)
def test_which_environment_a_line_names(command: str, venv: str) -> None:
    assert venv_in(command) == venv


def test_a_program_of_the_system_is_outside_of_any_environment() -> None:
    for folder in SYSTEM_FOLDERS:
        assert needs_venv(f"{folder}/python3 x.py") == "python3"
        assert venv_in(f"{folder}/python3 x.py") == ""
