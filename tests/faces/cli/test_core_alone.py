"""The core without the lab and the evaluation harness, as `pip install operator-sre` leaves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from operator_evals.viewer import console
from operator_lab import access
from operator_protocols.installation import how_to_add_extra
from operator_sre.app.extras import Lab, RigAccess, has_evals, load_lab
from operator_sre.faces.web.routes import router_of

# The distributions are installed as editable ones, each by its folder in sys.path.
_ALONE = """
import json, sys
from importlib.util import find_spec

sys.path[:] = [path for path in sys.path if not path.endswith(("lab/src", "evals/src"))]
assert not find_spec("operator_lab") and not find_spec("operator_evals")
import operator_sre
"""
_RUN = "from operator_sre.faces.cli import main\nmain(sys.argv[1:])\n"
_IMPORT_ALL = """
import importlib, pkgutil
for found in pkgutil.walk_packages(operator_sre.__path__, "operator_sre."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(json.dumps([name for name in sys.modules if name.startswith(("operator_lab", "operator_e"))]))
"""
_SERVE = """
from pathlib import Path
from operator_sre.app.wiring import open_app
from operator_sre.config import load_config
from operator_sre.faces.web.application import application
from operator_sre.faces.web.renderer import PLACES
home = Path(sys.argv[1])
with open_app(load_config(flags={"home": str(home)}, environ={}, cwd=home.parent)) as home:
    routes = [route.path for route in application(home).pages.routes]
print(json.dumps([routes, [place.path for place in PLACES]]))
"""


def _alone(code: str, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _ALONE + code, *words],
        env={**os.environ, "OPERATOR_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("demo --plain", "demo"),
        ("deploy local up ratelimiter", "lab"),
        ("eval list --json", "evals"),
        ("lab --help", "lab"),
    ],
)
def test_a_noun_of_an_extra_names_it_in_one_sentence(tmp_path: Path, line: str, extra: str) -> None:
    done = _alone(_RUN, tmp_path, *line.split())
    assert done.returncode == 1
    noun, told = line.split()[0], done.stdout + done.stderr
    assert f"operator {noun} needs the extra '{extra}', which is not installed." in told
    assert how_to_add_extra(extra) in told
    assert len(told.splitlines()) == 1 or json.loads(told)["error"]["category"]


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "tickets list",
        "subjects list",
        "gate check -- uptime",
        "exec -- true",
        "completion bash",
        "tickets show lab",  # a word that is also a noun of an extra
    ],
)
def test_the_core_runs_without_them(tmp_path: Path, line: str) -> None:
    done = _alone(_RUN, tmp_path, *line.split())
    assert "which is not installed" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if line == "tickets show lab" else 0), done.stderr


def test_every_module_of_the_core_loads_without_them(tmp_path: Path) -> None:
    done = _alone(_IMPORT_ALL, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_the_console_has_every_page_but_those_of_the_harness(tmp_path: Path) -> None:
    done = _alone(_SERVE, tmp_path, str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    routes, places = json.loads(done.stdout)
    assert {"/", "/tickets", "/settings"} <= set(routes)
    assert set(places) <= set(routes)
    assert "/evals" not in {*routes, *places}


def test_the_pages_of_the_harness_are_doors_of_the_console() -> None:
    assert console.router.prefix == "/evals"
    assert {type(route) for route in console.router.routes} == {router_of().route_class}


def test_a_rig_that_is_left_without_its_lab_names_the_extra(tmp_path: Path) -> None:
    rig = tmp_path / "lab" / "ratelimiter"
    rig.mkdir(parents=True)
    (rig / "rig.json").write_text("{}")
    done = _alone(_RUN, tmp_path, "subjects", "check", "ratelimiter")
    assert done.returncode == 1
    assert "A rig needs the extra 'lab'" in done.stderr


def test_what_the_core_asks_of_the_lab_is_there() -> None:
    lab: Lab = access
    assert load_lab() is lab
    assert RigAccess.__slots__
    assert has_evals()
