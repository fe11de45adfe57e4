"""The command in an error about a missing extra works for how Operator was installed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from operator_protocols import installation
from operator_protocols.installation import how_to_add_extra, how_to_add_package
from tests.every import every

PIPX, UV = "pipx_metadata.json", "uv-receipt.toml"


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that holds wheels, with pip."""
    monkeypatch.setattr(installation, "_checkout", lambda: None)
    (tmp_path / "lib" / "python3.11" / "site-packages" / "pip").mkdir(parents=True)
    return tmp_path


def _words(said: str) -> list[str]:
    return shlex.split(said.partition(" (DIST")[0])


def test_pip_is_that_of_the_environment_and_gets_the_wheels_from_a_directory(prefix: Path) -> None:
    said = how_to_add_extra("mcp", prefix=prefix)
    assert said.endswith("(DIST is the directory with the wheels of Operator)")
    wheels = ["-f", "DIST", "-c", "DIST/constraints.txt"]
    python = f"{prefix}/bin/python"
    assert _words(said) == [python, "-m", "pip", "install", *wheels, "operator-sre[mcp]"]
    (prefix / "lib" / "python3.11" / "site-packages" / "pip").rmdir()
    words = _words(how_to_add_extra("mcp", prefix=prefix))
    assert words[:5] == ["uv", "pip", "install", "--python", python]


def test_pipx_and_uv_keep_the_extras_they_have_and_know_the_directory(prefix: Path) -> None:
    wheels = prefix / "my dist"
    wheels.mkdir()
    (wheels / "constraints.txt").touch()
    main = {
        "package": "operator-sre",
        "package_or_url": "operator-sre[web, tui]",
        "pip_args": ["-f", str(wheels)],
    }
    (prefix / PIPX).write_text(json.dumps({"main_package": main}))
    assert _words(how_to_add_extra("mcp", prefix=prefix)) == [
        *("pipx", "install", "--force", f"--pip-args=-f '{wheels}'", "operator-sre[mcp,tui,web]")
    ]
    assert how_to_add_package("x[y]", prefix=prefix) == "pipx inject operator-sre 'x[y]'"
    (prefix / UV).write_text(
        '[tool]\nrequirements = [{ name = "operator-sre", extras = ["web"] }]\n'
        f'[tool.options]\nfind-links = ["{wheels.as_uri()}"]\n'
    )
    found = ["-f", str(wheels), "-c", f"{wheels}/constraints.txt"]
    assert _words(how_to_add_extra("mcp", prefix=prefix)) == [
        *("uv", "tool", "install", *found, "operator-sre[mcp,web]")
    ]
    assert _words(how_to_add_package("x", prefix=prefix)) == [
        *("uv", "tool", "install", *found, "--with", "x", "operator-sre[web]")
    ]


@every("name", [PIPX, UV])
@every("text", ["", "[]", "{", "tool = 1", '{"main_package": 1}', '{"main_package": {}}'])
def test_a_record_that_cannot_be_read_is_as_none(prefix: Path, name: str, text: str) -> None:
    (prefix / name).write_text(text)
    assert "-m pip install" in how_to_add_extra("mcp", prefix=prefix)


def test_a_checkout_says_what_brings_its_extras(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    said = how_to_add_extra("mcp", prefix=root / ".venv")
    assert shlex.split(said) == ["make", "-C", str(root), "extras"]
    assert shlex.split(how_to_add_extra("mcp", prefix=tmp_path))[-2:] == ["-e", f"{root}[mcp]"]
