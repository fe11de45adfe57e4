"""From a file to rules: what is merged, what is refused, and where the mistake is."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_protocols.errors import ConfigError
from operator_sre.gate.policy import Decision, Override, PolicyRule, Rulebook, built_in
from operator_sre.gate.policy.load import book_of, load_book
from operator_sre.gate.policy.schema import RULE_KEYS, SECTIONS
from tests.every import every
from tests.gate.policy.writing import RULE, book, ids, text_of

SENTENCE = re.compile(r"policy\.yaml:[1-9]\d*:[1-9]\d*: .+")
PLACE = re.compile(r"policy\.yaml:(\d+):(\d+): .+[.?]")


def _error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        book_of(text, "policy.yaml")
    found = str(caught.value)
    assert PLACE.fullmatch(found), found
    assert "\n" not in found
    return found


def test_everything_that_can_be_said_is_heard() -> None:
    found = book(
        safe=[RULE],
        paths={"sensitive": ["/srv/**"]},
        egress={"allow": ["*.example.com"], "deny": ["pay.example.com"]},
        services={"allow": ["shop.service"], "deny": ["payments"]},
        budgets={"turns_max": 5},
        roles={"alice": "admin"},
        grants={"agent": ["safe", "check_port"]},
        modes={"shop": "execute"},
        approval={"critical": "deny"},
        limits={"blast_radius": 2},
        overrides=[{"rule": "dd", "reason": "Disks are tested here.", "by": "alice"}],
    )
    base = built_in()
    assert [rule.id for rule in found.rules if not rule.is_built_in] == ["depth"]
    assert len(found.rules) == len(base.rules)
    assert found.sensitive == (*base.sensitive, "/srv/**")
    assert found.egress.allow == ("*.example.com",)
    assert found.egress.deny == (*base.egress.deny, "pay.example.com")
    assert found.services.allow == ("shop",)
    assert found.services.deny == (*base.services.deny, "payments")
    assert (found.budgets, found.limits) == ({"turns_max": 5.0}, {"blast_radius": 2.0})
    assert (found.roles, found.modes) == ({"alice": "admin"}, {"shop": Mode.EXECUTE})
    assert found.grants == {"agent": ("safe", "check_port")}
    assert found.decision(Risk.CRITICAL) is Decision.DENY
    assert found.decision(Risk.LOW) is Decision.AUTO
    assert found.overrides == (Override("dd", "Disks are tested here.", "alice"),)
    assert found.rule("dd") is None
    assert found.secrets.holds("/srv/app/x")


def test_hosts_is_another_name_of_egress() -> None:
    assert book(hosts={"deny": ["a"]}).egress == book(egress={"deny": ["a"]}).egress


def test_safe_loosens_review_and_never_what_is_blocked_or_needs_other_rights() -> None:
    rules = [
        {**RULE, "id": "make_docs", "command": "make", "operand": "docs", "match": ["make docs"]},
    ]
    del rules[0]["subcommand"]
    found = book(safe=rules)
    assert ids("make docs", built_in()) == ["build"]
    assert ids("make docs", found) == ["make_docs"]
    assert ids("make install", found) == ["build"]
    assert "make_docs" not in ids("sudo make docs", found)
    error = _error(text_of(safe=[{**RULE, "command": "dd", "subcommand": "x", "match": ["dd x"]}]))
    assert "is blocked by 'dd', and nothing in 'safe' can loosen that." in error


def test_an_override_takes_a_built_in_rule_away_and_no_other() -> None:
    override = {"rule": "delete_tree", "reason": "Builds.", "by": "bob"}
    assert ids("rm -rf build", book(overrides=[override])) == ["delete_files"]
    assert "delete_system" in ids("rm -rf /", book(overrides=[override]))


WRONG: list[tuple[str, int, int, str]] = [
    ("", 1, 1, "has to say 'version: 1'"),
    ("version: 2\n", 1, 10, "reads version 1"),
    ("[]\n", 1, 1, "is a list, and must be a table"),
    ("version: 1\nsave: []\n", 2, 1, "'save' is not a key here. Did you mean 'safe'?"),
    ("version: 1\nversion: 1\n", 2, 1, "'version' is a duplicate"),
    ("version: 1\nsafe: {}\n", 2, 7, "is a table, and must be a list"),
    ("version: 1\nsafe:\n", 2, 6, "is a text, and must be a list"),
    ("version: 1\na: b: c\n", 2, 5, "not YAML"),
    ("version: 1\nsafe: [\n", 3, 1, "not YAML"),
    ("version: 1\n\tx: 1\n", 2, 1, "not YAML"),
    ("version: 1\nx: \x07\n", 2, 4, "cannot be in a YAML file"),
    ("version: 1\n---\nversion: 1\n", 2, 1, "second document"),
    ("version: 1\nroles: &a {}\n", 2, 8, "Tags and anchors"),
    ("version: 1\nroles: {a: *b}\n", 2, 12, "Aliases"),
    ("version: !!python/object:os.system x\n", 1, 10, "Tags and anchors"),
    ("version: 1\nroles: {a: owner}\n", 2, 12, "one of viewer, approver, admin"),
    ("version: 1\nmodes: {a: all}\n", 2, 12, "one of observe, approve, execute"),
    ("version: 1\napproval: {hight: auto}\n", 2, 12, "Did you mean 'high'?"),
    ("version: 1\napproval: {high: yes}\n", 2, 18, "one of auto, require, deny"),
    ("version: 1\ntools: {wait: auto}\n", 2, 15, "one of require, deny"),
    ("version: 1\npaths: {write: [etc]}\n", 2, 17, "has to begin with '/'"),
    ("version: 1\nlimits: {blast_radius: x}\n", 2, 24, "must be a number"),
    ("version: 1\nlimits: {blast_radius: 0}\n", 2, 24, "between 1 and"),
    ("version: 1\nlimits: {blast_radius: nan}\n", 2, 24, "between 1 and"),
    ("version: 1\nbudgets: {turns: 1}\n", 2, 11, "Did you mean 'turns_max'?"),
    ("version: 1\npaths: {sensitive: [etc]}\n", 2, 21, "has to begin with '/'"),
    ("version: 1\npaths: {sensitive: [/a**b]}\n", 2, 21, "'**' has to stand alone"),
    ("version: 1\npaths: {sensitive: ['/[a]']}\n", 2, 21, "Only '*' and '**'"),
    ("version: 1\npaths: {sensitive: [/a, /a]}\n", 2, 25, "is a duplicate"),
    ("version: 1\negress: {allow: ['a b']}\n", 2, 18, "is not a host"),
    ("version: 1\negress: {scripts: ['*:443']}\n", 2, 20, "is not a host and port"),
    ("version: 1\negress: {scripts: [a.example.com]}\n", 2, 20, "is not a host and port"),
    ("version: 1\negress: {allow: [10.0.0.0/99]}\n", 2, 18, "is not a network"),
    ("version: 1\negress: {}\nhosts: {}\n", 3, 8, "another name of 'egress'"),
    ("version: 1\nservices: {allow: [../x]}\n", 2, 20, "is not the name of a service"),
    ("version: 1\noverrides: [{rule: dd, by: x}]\n", 2, 13, "no 'reason'"),
    ("version: 1\noverrides: [{rule: ddd, by: x, reason: y}]\n", 2, 13, "Did you mean 'dd'?"),
]


@every(("text", "line", "column", "says"), WRONG)
def test_a_mistake_is_told_with_its_place(text: str, line: int, column: int, says: str) -> None:
    error = _error(text)
    assert error.startswith(f"policy.yaml:{line}:{column}: "), error
    assert says in error


WRONG_RULES: list[tuple[str, dict[str, Any], str, str]] = [
    ("review", {"id": "A b"}, "", "lower-case letters"),
    ("review", {"id": "dd"}, "", "the id of a built-in rule"),
    ("review", {"why": ""}, "", "must be a text"),
    ("review", {"match": []}, "", "at least one example"),
    ("review", {"match": ["other depth"]}, "", "does not match its example 'other depth'"),
    ("review", {"not_match": ["jobctl depth x"]}, "", "matches 'jobctl depth x', and should not"),
    ("review", {"risk": "huge"}, "", "one of low, medium, high, critical"),
    ("review", {"piped": "maybe"}, "", "true or false"),
    ("review", {"regex": "a("}, "", "not a regular expression (RE2)"),
    ("review", {"operand": "(?=a)"}, "", "not a regular expression (RE2)"),
    ("review", {"options": ["force"]}, "", "is not an option such as"),
    ("review", {"options": []}, "", "'options' is empty"),
    ("review", {"comand": "x"}, "", "Did you mean 'command'?"),
    ("review", {"path": ["x"]}, "", "has to begin with '/'"),
    ("review", {}, "command", "has to name a command, a path, a redirect or a regex"),
    ("review", {}, "why", "has no 'why'"),
    ("review", {}, "match", "has no 'match'"),
    ("safe", {"command": "job*"}, "", "name its commands in full"),
    ("safe", {"regex": "x"}, "command", "has to name its commands"),
    ("safe", {"privileged": True}, "", "needs other rights"),
    ("safe", {"cwd": "/srv/*"}, "", "named in full"),
    ("review", {"cwd": "/srv"}, "", "rules of 'safe' only"),
    ("safe", {"redirect": "x"}, "", "redirected"),
    ("safe", {"risk": "high"}, "", "low risk"),
    ("safe", {"match": ["sudo jobctl depth"]}, "", "does not match its example"),
    ("safe", {"match": ["jobctl depth > x"]}, "", "does not match its example"),
]


@every(("level", "change", "without", "says"), WRONG_RULES)
def test_a_mistake_in_a_rule_is_told_with_its_place(
    level: str, change: dict[str, Any], without: str, says: str
) -> None:
    rule = {key: value for key, value in {**RULE, **change}.items() if key != without}
    assert says in _error(text_of(**{level: [rule]}))


def test_two_rules_have_two_ids() -> None:
    assert "the id of another rule" in _error(text_of(safe=[RULE], review=[copy.deepcopy(RULE)]))


def test_an_error_in_an_example_points_at_the_example() -> None:
    text = text_of(review=[{**RULE, "match": ["jobctl depth", "jobctl drain"]}])
    line = text.splitlines().index("  - jobctl drain") + 1
    assert _error(text).startswith(f"policy.yaml:{line}:5: ")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    with pytest.raises(ConfigError, match=r"policy\.yaml:1:1: .*No such file"):
        load_book(file)
    file.write_bytes(b"version: 1\nroles: {\xff: admin}\n")
    with pytest.raises(ConfigError, match=r"policy\.yaml:2:9: This is not UTF-8"):
        load_book(file)
    file.write_text("#" * 1_100_000)
    with pytest.raises(ConfigError, match=r"policy\.yaml:1:1: The file is longer"):
        load_book(file)
    file.write_text("\ufeffversion: 1\n")
    assert load_book(file).digest == built_in().digest


_words = st.sampled_from([*SECTIONS, *RULE_KEYS, "1", "x", "allow", "deny", "jobctl", "/a", "true"])
_trees = st.recursive(
    _words | st.text(max_size=8) | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=20,
)


def _policy_or_sentence(text: str) -> None:
    told = ""
    try:
        assert book_of(text, "policy.yaml").digest
    except ConfigError as error:
        told = str(error)
    assert not told or SENTENCE.match(told), told


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_is_a_policy_or_one_sentence(text: str) -> None:
    _policy_or_sentence(text)
    _policy_or_sentence(f"version: 1\n{text}")


@given(_trees)
@settings(deadline=None)
def test_any_tree_is_a_policy_or_one_sentence(tree: object) -> None:
    _policy_or_sentence(yaml.safe_dump(tree))
    if isinstance(tree, dict):
        _policy_or_sentence(yaml.safe_dump({**tree, "version": 1}))


@given(st.integers(1, 3000), st.sampled_from("[{-&*!|>?:'\""))
@settings(deadline=None, max_examples=30)
def test_no_depth_of_nesting_is_too_deep_for_a_sentence(depth: int, sign: str) -> None:
    _policy_or_sentence("version: 1\nsafe: " + sign * depth)
    _policy_or_sentence("version: 1\nsafe: " + f"{sign} " * depth)


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_are_a_policy_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "policy.yaml"
    file.write_bytes(data)
    told = ""
    try:
        assert load_book(file).digest
    except ConfigError as error:
        told = str(error)
    assert not told or SENTENCE.search(told), told


RULE_CHANGES: dict[str, Any] = {
    "id": "other",
    "level": Level.REVIEW,
    "why": "Another.",
    "command": ("y",),
    "subcommand": ("b",),
    "options": ("-b",),
    "without": ("-d",),
    "operand": "b",
    "path": ("/b",),
    "redirect": "b",
    "regex": "b",
    "piped": False,
    "privileged": False,
    "cwd": ("/b",),
    "risk": Risk.LOW,
    "reversible": False,
    "match": ("b",),
    "not_match": ("b",),
    "origin": "other.yaml",
}
FULL = PolicyRule(
    "one",
    Level.BLOCKED,
    "Because.",
    command=("x",),
    subcommand=("a",),
    options=("-a",),
    without=("-c",),
    operand="a",
    path=("/a",),
    redirect="a",
    regex="a",
    piped=True,
    privileged=True,
    cwd=("/a",),
    risk=Risk.HIGH,
    reversible=True,
    match=("a",),
    not_match=("c",),
)


def test_every_field_of_a_rule_is_changed_below() -> None:
    assert set(PolicyRule.__struct_fields__) == set(RULE_CHANGES)


@every("name", RULE_CHANGES)
def test_the_digest_covers_every_field_of_a_rule(name: str) -> None:
    changed = msgspec.structs.replace(FULL, **{name: RULE_CHANGES[name]})
    assert Rulebook(rules=(changed,)).digest != Rulebook(rules=(FULL,)).digest


SECTION_CHANGES: dict[str, dict[str, Any]] = {
    "rules": {"review": [RULE]},
    "sensitive": {"paths": {"sensitive": ["/srv/x"]}},
    "writable": {"paths": {"write": ["/srv/x"]}},
    "egress": {"egress": {"deny": ["x"]}},
    "services": {"services": {"deny": ["x"]}},
    "approval": {"approval": {"low": "require"}},
    "tools": {"tools": {"read_file": "require"}},
    "modes": {"modes": {"a": "observe"}},
    "roles": {"roles": {"a": "viewer"}},
    "grants": {"grants": {"a": ["safe"]}},
    "budgets": {"budgets": {"turns_max": 3}},
    "limits": {"limits": {"blast_radius": 3}},
    "chains": {"approvers": {"high": ["a"]}},
    "overrides": {"overrides": [{"rule": "dd", "reason": "x", "by": "y"}]},
}


def test_every_section_is_changed_below() -> None:
    assert set(Rulebook.__struct_fields__) == set(SECTION_CHANGES)


@pytest.mark.parametrize("name", SECTION_CHANGES)
def test_the_digest_covers_every_section(name: str) -> None:
    changed = book(**SECTION_CHANGES[name])
    assert getattr(changed, name) != getattr(built_in(), name)
    assert changed.digest != built_in().digest
