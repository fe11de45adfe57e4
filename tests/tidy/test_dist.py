"""The wheels that `make dist` builds: installed elsewhere, they are the whole product."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

import dist
from operator_sre import __version__
from operator_sre.release import code_revision
from tests.every import every

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
EXTRAS = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
)


def _run(*words: object, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environ: Mapping[str, str] = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "OPERATOR_HOME": str(home / "operator"),
        **more,
    }
    return subprocess.run(
        [str(word) for word in words],
        env=environ,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    dist.build(folder)
    return folder


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `operator` of an environment that has our wheels, and not our checkout."""
    place = tmp_path_factory.mktemp("elsewhere")
    own = [UV, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", place / "venv"]
    made = _run(UV, "venv", "--quiet", "--python", sys.executable, place / "venv", home=place)
    assert made.returncode == 0, made.stderr
    done = _run(*own, *sorted(wheels.glob("*.whl")), home=place)
    assert done.returncode == 0, done.stderr
    # The dependencies are those of this environment; its editable installs are not followed.
    (site,) = (place / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "venv" / "bin" / "operator"


def test_the_version_names_the_commit_of_the_build(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "--version", home=tmp_path)
    commit = code_revision().rstrip("+")[:12]
    assert done.stdout.startswith(f"operator {__version__} (commit {commit}"), done.stderr


def test_every_page_of_the_documentation_is_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "docs", "--json", home=tmp_path)
    pages = {row["topic"] for row in json.loads(done.stdout)["topics"]}
    docs = ROOT / "docs"
    assert pages == {
        path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")
    }
    shown = _run(installed, "docs", "subjects/etcd", home=tmp_path).stdout
    assert shown.strip() == (docs / "subjects" / "etcd.md").read_text().strip()


def test_a_schema_is_that_of_the_documentation(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "docs", "--schema", "operator tickets  list", home=tmp_path)
    file = ROOT / "docs" / "schemas" / "cli" / "tickets-list.json"
    assert json.loads(done.stdout) == json.loads(file.read_text())
    done = _run(installed, "docs", "--schema", "ticket list", home=tmp_path)
    assert "Did you mean 'tickets list'?" in done.stderr


def test_a_misspelled_topic_names_the_nearest(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "docs", "gats", home=tmp_path)
    assert done.returncode == 2
    assert "Did you mean 'gate'?" in done.stderr


@every("line", ["gate check -- uptime", "lab faults etcd"])
def test_the_installed_command_works(installed: Path, tmp_path: Path, line: str) -> None:
    done = _run(installed, *line.split(), home=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_sums_are_those_of_the_wheels(wheels: Path) -> None:
    done = _run("sha256sum", "--check", "--quiet", "SHA256SUMS", home=wheels)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((wheels / "SHA256SUMS").read_text().splitlines()) == len(dist.PROJECTS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@every("extra", ["", *EXTRAS])
def test_each_extra_installs_into_an_empty_environment(
    wheels: Path, tmp_path: Path, extra: str
) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    name = f"operator-sre[{extra}]" if extra else "operator-sre"
    place = ["-f", str(wheels), "-c", str(wheels / "constraints.txt")]
    # With the machine's settings of pip, as a user has them.
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", *place, name], check=True)
    operator = venv / "bin" / "operator"
    assert _run(operator, "--help", home=tmp_path).returncode == 0
    nouns = {"lab": "lab", "demo": "demo", "evals": "eval", "tui": "tui", "web": "web"}
    assert _run(operator, nouns.get(extra, "docs"), "--help", home=tmp_path).returncode == 0
