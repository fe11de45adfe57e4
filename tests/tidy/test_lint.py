"""The linters are armed: each rule that we lean on reports a bad sample."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT, texts

_BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("ASYNC251", "import time\n\n\nasync def f() -> None:\n    time.sleep(1)\n"),
        ("BLE001", "try:\n    x = 1\nexcept Exception:\n    x = 2\n"),
        ("DTZ005", "import datetime\n\nnow = datetime.datetime.now()\n"),
        ("E501", "x = 1  # " + "long " * 20 + "\n"),
        ("F401", "import os\n"),
        ("I001", "import sys\nimport os\n\nprint(sys, os)\n"),
        ("PGH003", "x: int = 'a'  # type: ignore\n"),
        ("PGH004", "import os  # noqa\n"),
        ("PTH123", "open('a')\n"),
        ("RUF022", "__all__ = ['b', 'a']\na = b = 1\n"),
        ("RUF100", "x = 1  # noqa: F401\n"),
        ("S602", "import subprocess\n\nsubprocess.run('ls', shell=True)\n"),
        ("T201", "print(1)\n"),
    ],
)
def test_ruff_reports(code: str, text: str) -> None:
    done = subprocess.run(
        [_BIN / "ruff", "check", "--no-cache", "--stdin-filename=src/operator_sre/sample.py", "-"],
        input=text,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert code in done.stdout


# An offence against each contract: the file that commits it, and what it imports.
_OFFENCES = {
    "evals/src/operator_evals/score.py": ("operator_evals.viewer",),
    "lab/src/operator_lab/rig.py": ("operator_lab.demo",),
    "protocols/src/operator_protocols/errors.py": (
        "operator_protocols.ports",
        "operator_sre.config",
    ),
    "src/operator_sre/gate/__init__.py": (
        "operator_sre.monitor",
        "operator_sre.models",
        "operator_sre.processes",
        "operator_sre.store",
        "subprocess",
    ),
    "src/operator_sre/faces/__init__.py": ("operator_sre.gate",),
    "src/operator_sre/faces/mcp/__init__.py": ("operator_sre.faces.api",),
    "src/operator_sre/plugins.py": ("operator_sre.subjects.ratelimiter",),
}


def test_every_contract_can_be_broken(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("src", "evals/src", "lab/src", "protocols/src")]
    for folder in folders:
        shutil.copytree(ROOT / folder.relative_to(tmp_path), folder)
    for path, imports in _OFFENCES.items():
        with (tmp_path / path).open("a") as file:
            file.writelines(f"\nimport {name}" for name in imports)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    paths = ":".join(map(str, folders))
    done = subprocess.run(
        [_BIN / "lint-imports", "--no-cache", "--no-logo"],
        cwd=tmp_path,
        env={"PYTHONPATH": paths, "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    config = tomllib.loads(texts()["pyproject.toml"])["tool"]["importlinter"]
    kept = [
        contract["name"]
        for contract in config["contracts"]
        if f"{contract['name']} BROKEN" not in done.stdout
    ]
    assert kept == [], done.stdout + done.stderr
