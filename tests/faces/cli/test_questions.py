"""The seven questions on the command line: answered, with references that lead somewhere."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.run import Answer, Escalate
from operator_sre.contract.evidence import command_for
from operator_sre.contract.messages import EvidenceType
from tests.app.answering import FOUND, shopkeeper
from tests.e2e.home import Home, Json
from tests.e2e.warm import Warm

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
TURN = Answer(
    f"try, with token {SECRET}",
    (FOUND, Action.shell("rm -rf /"), Escalate(f"It is forbidden, and the token is {SECRET}.")),
)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Iterator[tuple[Home, str]]:
    """A home in which a run was denied and failed, and the id of that run."""
    folder = tmp_path_factory.mktemp("failed")
    with pytest.MonkeyPatch.context() as patch, shopkeeper(folder, patch, TURN) as keeper:
        run = asyncio.run(keeper.carry())
    home = Home(folder, warm)
    yield home, run
    home.close()


def _refs(value: Any) -> Iterator[Json]:
    """Every reference in a document, at any depth."""
    if isinstance(value, dict):
        yield from value.get("evidence_refs", [])
        for one in value.values():
            yield from _refs(one)
    for one in value if isinstance(value, list) else ():
        yield from _refs(one)


def test_every_answer_is_one_document_and_every_reference_in_it_can_be_followed(
    failed: tuple[Home, str],
) -> None:
    home, run = failed
    asked = [
        ("summarize", run),
        ("explain-failure", run),
        ("explain-denial", run),
        ("explain-denial", run, "--action", "rm -rf /"),
        ("explain-denial", "--action", "mkfs /dev/sda"),
        ("timeline", run),
        ("next-action", run),
        ("next-action",),
    ]
    commands = set()
    for words in asked:
        document = home.ask(*words)
        assert document["schema_version"] == "1.0.0"
        text = json.dumps(document)
        assert SECRET not in text
        assert "[REDACTED:" not in text
        refs = list(_refs(document))
        assert refs, words
        for ref in refs:
            command = command_for(EvidenceType(ref["type"]), ref["ref"])
            assert command, ref
            assert ref["type"] == "verification" or command in ref["detail"]
            commands.add(command)
    entries = sorted(one for one in commands if "--seq" in one)
    for command in (*entries[:4], *sorted(commands - {*entries})):
        first, *line = shlex.split(command)
        assert first == "operator"
        done = home.run(*line)
        assert done.code == (3 if line[:2] == ["gate", "check"] else 0), (command, done)


def test_people_are_told_the_same(failed: tuple[Home, str]) -> None:
    home, run = failed
    assert "Failed: the run of scripted" in home.run("summarize", run).out
    assert "policy_denied" in home.run("explain-failure", run).out
    assert "next: review_policy_patch" in home.run("explain-failure", run).out
    assert "Denied by blocked[0]: rm -rf /" in home.run("explain-denial", run).out
    assert "policy_denied" in home.run("timeline", run).out
    assert home.run("next-action", run).out.startswith("review_policy_patch: ")


def test_what_is_allowed_is_never_explained_as_denied(failed: tuple[Home, str]) -> None:
    home, run = failed
    for words in (("--action", "ls"), (run, "--action", "ls -l")):
        done = home.run("explain-denial", *words, "--json")
        assert done.code == 1
        assert "is not denied" in done.json["error"]["message"]
    assert home.run("explain-denial").code == 2
    assert home.run("summarize", "run-that-never-was").code == 2


def test_a_patch_is_proposed_and_not_applied(failed: tuple[Home, str]) -> None:
    home, _ = failed
    before = (home.cwd / "policy.yaml").read_bytes()
    done = home.run("recommend-patch", "allow host api.example.com", "--json")
    assert done.code == 4, done
    document = done.json
    assert document["confirmation"]["requires_confirmation"] is True
    assert "api.example.com" in document["proposed_patch"]
    assert document["next_action"] == "review_policy_patch"
    assert (home.cwd / "policy.yaml").read_bytes() == before
    following = home.ask("next-action")
    assert following["next_action"] == "review_policy_patch"
    shown = document["confirmation"]["confirmation_id"]
    assert following["confirmation"]["confirmation_id"] == shown
    assert home.run("confirmations", "decline", shown, "--reason", "no").code in (0, 3)
    assert home.ask("next-action")["next_action"] == "fix_code"
    unclear = home.run("recommend-patch", "make it better somehow", "--json")
    assert unclear.code == 2
    assert "proposed_patch" not in unclear.json


BROKEN = """
modee = "observe"
interval_s = 0
[subjects.ghost]
plugin = "nobody-has-this"
[subjects.shop]
plugin = "ratelimiter"
[[subjects.shop.targets]]
name = "node-1"
kind = "node"
port = 8001
access = { tls = true, token_file = "no-such-file" }
[subjects.lost]
plugin = "declarative"
options = { file = "subjects/lost.yaml" }
[triggers.pager]
kind = "smoke-signals"
"""


def test_every_problem_of_a_project_is_told_at_once(home: Home) -> None:
    folder = home.cwd / "project"
    (folder / "subjects").mkdir(parents=True)
    (folder / "operator.toml").write_text(BROKEN)
    (folder / "policy.yaml").write_text("version: 1\nsfae: []\n")
    (folder / "subjects" / "notes.yaml").write_text(f"token: {SECRET}\n")
    done = home.run("validate", str(folder), "--json")
    assert (done.code, done.json["ready"]) == (1, False)
    found = {(one["category"], one["next_action"]) for one in done.json["issues"]}
    assert found == {
        ("policy_validation_failed", "fix_code"),
        ("dependency_conflict", "install_dependency"),
        ("missing_secret_binding", "set_secret"),
        ("secret_scan_failed", "fix_code"),
    }
    told = " ".join(one["message"] for one in done.json["issues"])
    for part in ("modee", "interval_s", "nobody-has-this", "no-such-file", "lost", "pager", "sfae"):
        assert part in told, part
    assert SECRET not in done.out
    assert all(one["evidence_refs"] for one in done.json["issues"])
    assert done.json["project_dir"] == str(folder)
    assert "is not ready" in home.run("validate", str(folder)).out


def test_a_project_that_is_right_is_ready_and_nothing_is_written(home: Home) -> None:
    folder = home.cwd / "fine"
    folder.mkdir()
    toml = '[subjects.shop]\nplugin = "ratelimiter"\n[[subjects.shop.targets]]\n'
    (folder / "operator.toml").write_text(f'{toml}name = "n"\nkind = "node"\nport = 1\n')
    (folder / "policy.yaml").write_text("version: 1\n")
    before = sorted(home.cwd.rglob("*"))
    document = home.ask("validate", str(folder))
    assert (document["ready"], document["runtime"], document.get("issues")) == (
        True,
        "python",
        None,
    )
    assert sorted(home.cwd.rglob("*")) == before
    assert home.run("validate", str(home.cwd / "nowhere")).code == 1
