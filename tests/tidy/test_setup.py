"""The set-up: what it takes from the lock and from pip's settings, and when it is out of date."""

import os
import stat
import subprocess
import tomllib
from typing import Any

import pytest

from pinned import LEVELS, NotLockedError, pins, pip_settings, requirements, uv_settings
from setup_venv import is_ready
from tests.tidy.sources import ROOT, paths, texts

_LOCK = """\
fast-api==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via operator-sre
old==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:cc
old==3.0 ; python_full_version >= '3.12' \\
    --hash=sha256:dd
"""
_DECLARED: list[dict[str, Any]] = [
    {"project": {"name": "operator-protocols"}},
    {
        "project": {
            "name": "operator-sre",
            "dependencies": ["operator_protocols", "Fast.API[all] >= 1"],
            "optional-dependencies": {"demo": ["server>=1"], "tui": ["screen; sys_platform"]},
        },
        "dependency-groups": {
            "dev": ["checker"],
            "docs": ["site"],
            "install": ["uv<1"],
            "x": [{"include": "dev"}],
        },
    },
]


def test_levels_grow() -> None:
    wanted = {level: requirements(level, _DECLARED) for level in LEVELS}
    assert wanted == {
        "uv": ["uv"],
        "demo": ["uv", "Fast.API[all]", "server"],
        "all": ["uv", "Fast.API[all]", "server", "screen", "checker"],
        "docs": ["uv", "Fast.API[all]", "server", "screen", "checker", "site"],
    }


def test_pins_keep_every_hash_and_marker() -> None:
    assert pins(["Fast.API[all]"], _LOCK) == (
        "fast-api[all]==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    )
    assert pins(["old"], _LOCK).count("--hash") == 2
    assert "< '3.12'" in pins(["old"], _LOCK)


def test_a_requirement_outside_the_lock_is_refused() -> None:
    with pytest.raises(NotLockedError, match="'new' is not in"):
        pins(["new"], _LOCK)


def test_everything_we_ask_for_is_locked() -> None:
    declared = [
        tomllib.loads(text)
        for path, text in texts().items()
        if path.endswith("pyproject.toml") and not path.startswith("examples/")
    ]
    assert len(declared) >= 3
    everything = pins(requirements("all", declared), texts()["requirements.lock"])
    assert everything.count("--hash=sha256:") >= everything.count("==")


def test_settings_of_pip_reach_uv() -> None:
    listing = (
        "global.cert='/etc/ssl/own.pem'\nglobal.index-url='https://general'\n"
        "install.index-url='https://install'\n:env:.index-url='https://env'\n"
        "global.find-links='/nowhere https://links'\n"
        "global.extra-index-url='https://b\\nhttps://c'\n"
    )
    settings = pip_settings(listing)
    assert settings["index-url"] == "https://env"
    assert uv_settings(settings, {"SSL_CERT_FILE": "mine"}) == {
        "UV_DEFAULT_INDEX": "https://env",
        "UV_FIND_LINKS": "https://links",
        "UV_INDEX": "https://b https://c",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    assert uv_settings({"index-url": "https://env"}, {"UV_INDEX_URL": "https://mine"}) == {}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"level": "demo", "lock": "1"}, True),
        ({"level": "all", "lock": "1"}, True),
        ({"level": "uv", "lock": "1"}, False),
        ({"level": "", "lock": "1"}, False),
        ({"level": "demo", "lock": "2"}, False),
        ({}, False),
    ],
)
def test_only_a_finished_install_of_today_is_ready(state: dict[str, str], expected: bool) -> None:
    assert is_ready("demo", state=state, now={"lock": "1"}) is expected


def test_help_is_what_make_shows() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    for target in ("demo", "test", "check", "test-system", "lock", "clean"):
        assert f"make {target} " in done.stdout


def test_continuous_integration_runs_what_a_person_runs() -> None:
    assert ".ci/run" in paths()
    assert (ROOT / ".ci" / "run").stat().st_mode & stat.S_IXUSR
    assert texts()[".ci/run"].rstrip().endswith("exec make test")
