"""Commands of Python that ran without an environment."""

from __future__ import annotations

import pytest

from operator_sre.ledger.history.templates import (
    VenvViolation,
    needs_venv,
    venv_of,
    venv_violations,
)
from tests.every import every
from tests.ledger.history.attempts import attempt


@every(
    ("command", "program"),
    [
        ("pip install requests", "pip"),
        ("pip3.11 install requests", "pip3.11"),
        ("python script.py", "python"),
        ("/usr/bin/python3 -m pytest", "python3"),
        ("sudo -u x pip install y", ""),
        ("sudo pip install y", "pip"),
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
    assert venv_of(attempt(command)) == venv


def test_what_was_recorded_counts_first() -> None:
    assert venv_of(attempt("pip install x", venv="/srv/v")) == "/srv/v"


def test_only_what_ran_outside_of_any_is_a_violation() -> None:
    wrong = attempt("pip install requests")
    history = [
        wrong,
        attempt("pip install requests", venv="/srv/v"),
        attempt(".venv/bin/pip install requests"),
        attempt("pip install requests", outcome="refused", exit_code=None),
        attempt("df -h"),
    ]
    advice = "Run it as .venv/bin/pip, or activate one first."
    assert venv_violations(history) == [VenvViolation(wrong, "pip", advice)]
