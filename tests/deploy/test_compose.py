"""deploy/compose.yaml runs the service narrowly, and publishes nothing beyond this host."""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml

from tests.faces.cli.tree import parse_line

FILE = Path(__file__).resolve().parents[2] / "deploy" / "compose.yaml"


def test_both_services_are_narrow_and_checked_and_reachable_from_this_host_only() -> None:
    services = yaml.safe_load(FILE.read_text())["services"]
    assert {*services} == {"operator", "database"}
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["healthcheck"]["test"][0] == "CMD"
        assert not service.get("privileged")
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert "cap_add" not in services["operator"]


def test_the_service_starts_with_a_line_that_exists_and_no_secret_in_it() -> None:
    operator = yaml.safe_load(FILE.read_text())["services"]["operator"]
    (script,) = operator["command"]
    start = script.replace("$$", "$").partition("exec ")[2]
    words = shlex.split(start.replace("${OPERATOR_MODE}", "observe"))
    assert words[0] == "operator"
    assert parse_line(words[1:]) == ("service", "run")
    assert "/run/secrets/database" in script
    # Every command in the container finds the same store, and no address has a password.
    assert operator["environment"]["OPERATOR_STORE"] == "postgresql://operator@database/operator"
    assert "PASSWORD" not in operator["environment"]
