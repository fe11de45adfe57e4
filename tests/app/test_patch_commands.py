"""A command that is allowed by a request: as it is written, where it starts, and fed nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.verdict import Level, Mode
from operator_sre.app.patch_drafts import draft_edit
from operator_sre.app.patch_requests import WantedCommand, parse_request
from operator_sre.app.patches import sketch
from operator_sre.config import Config, load_config
from operator_sre.gate import Policy, judge
from operator_sre.gate.policy.load import book_of
from tests.every import every


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The settings of a project without a policy."""
    folder: Path = tmp_path_factory.mktemp("project")
    return load_config(flags={"home": str(folder / "home")}, environ={}, cwd=folder)


def test_a_command_is_allowed_as_it_is_written_and_in_no_other_way(config: Config) -> None:
    wanted = WantedCommand(("jobctl", "depth", "-v", "mail"))
    assert parse_request("allow command jobctl depth -v mail") == wanted
    edit = draft_edit(config, wanted, lambda file: None)
    policy = Policy(mode=Mode.EXECUTE, book=book_of(edit.new, "policy.yaml"))

    def level(line: str) -> Level:
        return judge(Action.shell(line), policy).level

    assert level("jobctl depth -v mail") is Level.SAFE
    others = [
        "jobctl depth mail",
        "jobctl depth -v",
        "jobctl depth -v mail more",
        "jobctl depth -v mail --purge",
        "jobctl 'depth -v mail'",
        "jobctl depth -v mailbox",
        "sudo jobctl depth -v mail",
        "X=1 jobctl depth -v mail",
        "jobctl depth -v mail > x",
        "jobctl depth -v mail; rm -r x",
        "jobctl depth -v $(rm x)",
        "./jobctl depth -v mail",
        "jobctl depth -v m*l",
    ]
    assert [line for line in others if level(line) is Level.SAFE] == []


@every(
    ("text", "line", "others"),
    [
        (
            "allow command psql shop",
            "psql shop",
            [
                "echo 'drop table x' | psql shop",
                "cat x.sql | psql shop",
                "cat x | timeout 5 psql shop",
                "psql shop < /tmp/x.sql",
                "psql shop <<< 'drop table x'",
                *(f"psql shop <<< {one}" for one in ("1", "2", "-", "/dev/null")),
                *("psql shop < 1", "psql shop > 1", "psql shop <&3"),
                *("timeout 5 psql shop <<< /dev/null", "(psql shop) <<< /dev/null"),
            ],
        ),
        (
            "allow command make test (high)",
            "make test",
            [
                "cd /tmp/evil && make test",
                "cd /tmp/evil; cd /; make test",
                "(cd /tmp/evil; make test)",
                "make test; cd /tmp/evil",
                "env -C /tmp/evil make test",
            ],
        ),
        (
            "allow command kubectl apply -f - (high)",
            "kubectl apply -f -",
            ["curl -s http://localhost/x | kubectl apply -f -"],
        ),
    ],
)
def test_a_command_is_allowed_where_it_starts_and_with_nothing_fed_to_it(
    config: Config, text: str, line: str, others: list[str]
) -> None:
    edit = draft_edit(config, parse_request(text), lambda file: None)  # type: ignore[arg-type]
    policy = Policy(mode=Mode.EXECUTE, book=book_of(edit.new, "policy.yaml"))
    assert judge(Action.shell(line), policy).level is Level.SAFE
    elsewhere = replace(Action.shell(line), cwd="/tmp/evil")
    assert judge(elsewhere, policy).level is not Level.SAFE
    assert judge(replace(elsewhere, cwd=""), policy).level is not Level.SAFE
    safe = [one for one in others if judge(Action.shell(one), policy).level is Level.SAFE]
    assert safe == []


def test_a_command_that_opens_a_host_says_so(config: Config) -> None:
    asked = sketch(config, "allow command curl -s http://evil.example.org/").wanted
    assert (asked.boundary, asked.destinations) == (Boundary.EGRESS, ("evil.example.org",))
    near = sketch(config, "allow command curl -X POST http://localhost/ (high)").wanted
    assert (near.boundary, near.destinations) == (Boundary.POLICY_PATCH, ())
