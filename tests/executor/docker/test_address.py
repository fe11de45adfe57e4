"""Where an engine answers is found as Docker's own command line finds it."""

from __future__ import annotations

import hashlib
import json
import socket
import tempfile
from pathlib import Path

import pytest

from operator_sre.executor.docker import Address, address_here
from operator_sre.executor.docker.engine import DEFAULT


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("unix:///run/x.sock", Address(socket="/run/x.sock")),
        ("tcp://127.0.0.1:2375", Address(url="http://127.0.0.1:2375")),
        ("tcp://engine", Address(url="http://engine:2375")),
        ("tcp://[::1]:9", Address(url="http://[::1]:9")),
        ("https://engine", Address(url="https://engine:2376")),
    ],
)
def test_the_variable_decides(told: str, address: Address) -> None:
    assert address_here({"DOCKER_HOST": told}) == address


def test_tls_takes_the_certificates_of_the_user() -> None:
    known = {"DOCKER_HOST": "tcp://engine", "DOCKER_TLS_VERIFY": "1", "HOME": "/home/x"}
    assert address_here(known) == Address(url="https://engine:2376", certificates="/home/x/.docker")
    named = address_here({**known, "DOCKER_CERT_PATH": "/certificates"})
    assert named.certificates == "/certificates"
    assert address_here({**known, "DOCKER_TLS_VERIFY": "0"}).url == "http://engine:2375"


@pytest.mark.parametrize(
    "told",
    [
        *("ssh://user@host", "nonsense", "unix://relative", "tcp://", "tcp://host:port"),
        *("tcp://user:hunter2@host", "tcp://[::1"),
    ],
)
def test_what_cannot_be_used_is_told_and_not_shown(told: str) -> None:
    problem = address_here({"DOCKER_HOST": told}).problem
    assert problem.startswith("DOCKER_HOST")
    assert "hunter2" not in problem


def test_the_first_socket_there_is() -> None:
    with tempfile.TemporaryDirectory(prefix="operator-") as folder:
        known = {"HOME": "/nowhere", "XDG_RUNTIME_DIR": folder}
        before = address_here(known)
        assert before == Address(socket=DEFAULT)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"{folder}/docker.sock")
            found = address_here(known).socket
        assert found == (DEFAULT if Path(DEFAULT).is_socket() else f"{folder}/docker.sock")
        assert str(Address(socket=found)) == found


def _context(home: Path, name: str, host: object) -> None:
    folder = home / ".docker" / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    content = {"Name": name, "Endpoints": {"docker": {"Host": host}}}
    (folder / "meta.json").write_text(json.dumps(content))


def test_a_context_is_followed(tmp_path: Path) -> None:
    _context(tmp_path, "far", "tcp://engine:5")
    (tmp_path / ".docker" / "config.json").write_text('{"currentContext": "far"}')
    assert address_here({"HOME": str(tmp_path)}) == Address(url="http://engine:5")
    _context(tmp_path, "near", "unix:///near.sock")
    known = {"HOME": str(tmp_path), "DOCKER_CONTEXT": "near"}
    assert address_here(known) == Address(socket="/near.sock")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"currentContext": 7}', "[" * 100_000])
def test_settings_that_say_nothing_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(content)
    assert address_here({"HOME": str(tmp_path)}).socket


@pytest.mark.parametrize("host", ["", 7, None])
def test_a_context_that_cannot_be_read_is_told(tmp_path: Path, host: object) -> None:
    _context(tmp_path, "broken", host)
    known = {"HOME": str(tmp_path), "DOCKER_CONTEXT": "broken"}
    assert "'broken' cannot be read" in address_here(known).problem
