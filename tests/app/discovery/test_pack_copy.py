"""A discovered system gets its pack with its own address, and nothing that is only guessed."""

from __future__ import annotations

from pathlib import Path

from operator_sre.app.discovery.discover import Proposal
from operator_sre.app.discovery.kinds import KINDS
from operator_sre.app.discovery.pack_copy import copy_pack, has_pack
from operator_sre.app.discovery.settings_file import describe as write
from operator_sre.subjects.declarative.description import describe

PACKS = [kind.pack for kind in KINDS if kind.pack]


def proposal(pack: str, *, unit: str = "", grant: str = "") -> Proposal:
    return Proposal(
        f"{pack}-1", pack, ("10.0.0.7:4711",), ("it listens",), pack=pack, unit=unit, grant=grant
    )


def test_every_pack_of_a_kind_is_there_and_gets_the_address_that_was_found() -> None:
    assert {"nginx", "redis", "mysql", "opensearch"} == set(PACKS)
    for pack in PACKS:
        assert has_pack(pack)
        found = describe(write(proposal(pack)), "found.yaml")
        assert (found.name, found.targets[0].host) == (f"{pack}-1", "10.0.0.7")
        assert found.targets[0].port == 4711
        assert not found.levers, "nobody knows how it is started"


def test_a_file_is_named_only_where_it_is(tmp_path: Path) -> None:
    text = copy_pack(proposal("nginx"), root=tmp_path)
    assert "    # pid_file: /run/nginx.pid" in text
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "nginx.pid").touch()
    found = describe(copy_pack(proposal("nginx"), root=tmp_path), "found.yaml")
    assert found.pid_files == {"nginx-1-1": "/run/nginx.pid"}


def test_the_unit_is_started_and_the_credential_named() -> None:
    text = write(proposal("redis", unit="valkey.service", grant="ACL SETUSER operator"))
    found = describe(text, "found.yaml")
    assert [lever.command.argv for lever in found.levers] == [
        ("systemctl", "start", "valkey.service")
    ]
    access = found.targets[0].access
    assert access is not None
    assert (access.user, access.password_file.endswith("redis-1.password")) == ("operator", True)
