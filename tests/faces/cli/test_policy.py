"""`operator policy` as people and programs meet it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.warm import Done, Warm
from tests.faces.cli.sentences import Bad, one_sentence
from tests.gate.policy.writing import RULE, text_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "operator.toml").write_text('home = "home"\n')
    return tmp_path


def _run(warm: Warm, folder: Path, *words: str) -> Done:
    return warm.run("policy", *words, cwd=folder, environ=dict(os.environ))


def test_a_policy_is_begun_checked_and_not_overwritten(warm: Warm, folder: Path) -> None:
    done = _run(warm, folder, "init")
    assert done.code == 0
    assert str(folder / "policy.yaml") in done.out
    again = _run(warm, folder, "init")
    one_sentence(again, Bad("policy init", 2, "is not overwritten"))
    named = _run(warm, folder, "init", str(folder / "other.yaml"), "--json")
    assert named.json["file"] == str(folder / "other.yaml")
    checked = _run(warm, folder, "check")
    assert "policy.yaml is valid: 0 safe, 0 review, 0 blocked; 0 examples hold." in checked.out


def test_a_check_says_how_much_was_proven(warm: Warm, folder: Path) -> None:
    file = folder / "mine.yaml"
    file.write_text(text_of(review=[{**RULE, "not_match": ["jobctl drain"]}]))
    assert "1 review, 0 blocked; 2 examples hold." in _run(warm, folder, "check", str(file)).out
    found = _run(warm, folder, "check", str(file), "--json").json["policy"]
    assert found["rules"] == {"safe": 0, "review": 1, "blocked": 0}
    assert found["digest"].startswith("sha256:")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version: 1\nreveiw: []\n", r":2:1: 'reveiw' is not a key here\. Did you mean 'review'\?"),
        ("version: 1\nmodes: [\n", r":3:1: This is not YAML"),
        (text_of(review=[{**RULE, "match": ["ls"]}]), r"does not match its example 'ls'"),
    ],
    ids=["key", "yaml", "example"],
)
def test_a_mistake_is_one_sentence_with_its_place(
    warm: Warm, folder: Path, text: str, says: str
) -> None:
    file = folder / "mine.yaml"
    file.write_text(text)
    done = _run(warm, folder, "check", str(file))
    one_sentence(done, Bad("policy check", 2, says))
    assert f"{file}:" in done.err
    told = _run(warm, folder, "check", str(file), "--json")
    assert told.code == 2
    assert str(file) in told.json["error"]["message"]


def test_a_missing_file_is_one_sentence(warm: Warm, folder: Path) -> None:
    done = _run(warm, folder, "check", "nowhere.yaml")
    one_sentence(done, Bad("policy check", 2, r"nowhere\.yaml:1:1: .*No such file"))


def test_what_is_in_force_is_shown(warm: Warm, folder: Path) -> None:
    file = folder / "policy.yaml"
    override = {"rule": "dd", "reason": "Disks are tested here.", "by": "alice"}
    file.write_text(text_of(safe=[RULE], modes={"shop": "approve"}, overrides=[override]))
    text = _run(warm, folder, "show").out
    for words in (str(file), "delete_system", "depth", "modes shop: approve", "overridden dd"):
        assert words in text
    found = _run(warm, folder, "show", "--json").json
    assert found["file"] == str(file)
    rules = {rule["id"]: rule for rule in found["policy"]["rules"]}
    assert rules["depth"]["origin"] == "policy.yaml"
    assert "dd" not in rules
    assert "127.0.0.0/8" in found["policy"]["egress"]["allow"]
    assert found["policy"]["egress"]["people"] == ["*"]


def test_a_rule_is_explained_by_its_id(warm: Warm, folder: Path) -> None:
    text = _run(warm, folder, "explain", "pipe_to_shell").out
    assert "level: blocked" in text
    assert "why: It runs the output of the previous command" in text
    assert _run(warm, folder, "explain", "pipe_to_shell", "--json").json["rule"]["piped"] is True


def test_a_command_is_explained_by_the_rules_that_speak_of_it(warm: Warm, folder: Path) -> None:
    done = _run(warm, folder, "explain", "rm -rf / | uptime")
    assert done.code == 0
    assert "BLOCKED: It deletes the root" in done.out
    assert "blocked delete_system (built-in)" in done.out
    assert "no rule matches" in done.out
    found = _run(warm, folder, "explain", "rm -rf / | uptime", "--json").json
    assert found["level"] == "blocked"
    assert found["parts"][0]["rules"][0] == "delete_system"


def test_two_policies_are_told_apart(warm: Warm, folder: Path) -> None:
    old, new = folder / "old.yaml", folder / "new.yaml"
    old.write_text(text_of())
    new.write_text(text_of(safe=[RULE], approval={"high": "deny"}))
    text = _run(warm, folder, "diff", str(old), str(new)).out
    assert "looser   rule depth: safe was added" in text
    assert "tighter  approval high: require became deny" in text
    assert "review -> safe: jobctl depth" in text
    found = _run(warm, folder, "diff", str(old), str(new), "--json").json
    assert found["commands"] == [{"command": "jobctl depth", "old": "review", "new": "safe"}]
    assert {one["effect"] for one in found["changes"]} == {"looser", "tighter"}
    assert found["judged"] > 500


def test_a_wrong_policy_stops_what_would_go_by_it(warm: Warm, folder: Path) -> None:
    (folder / "policy.yaml").write_text("version: 1\nsafe: yes\n")
    done = warm.run("gate", "check", "ls", cwd=folder, environ=dict(os.environ))
    one_sentence(done, Bad("gate check", 2, r"policy\.yaml:2:7: "))
