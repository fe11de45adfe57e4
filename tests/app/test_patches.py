"""Requests in plain words: what they come to, and that they never come to more than was asked."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.domain.confirmation import Boundary, ConfirmationState
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConflictError, OperatorError, UsageError
from operator_sre.app.confirmations import approve, decline, get
from operator_sre.app.patch_drafts import (
    FOUND,
    Edit,
    draft_edit,
    request_of,
    with_number,
    with_rule,
    with_setting,
    with_words,
)
from operator_sre.app.patch_requests import (
    REQUEST_CHARACTERS_MAX,
    WantedBinding,
    WantedBudget,
    WantedCommand,
    WantedHost,
    parse_request,
)
from operator_sre.app.patches import Proposal, Sketch, patch_of, propose, sketch, sketch_for
from operator_sre.config import Config, load_config
from operator_sre.gate.policy import Rulebook, built_in
from operator_sre.gate.policy.egress import Egress
from operator_sre.gate.policy.load import book_of
from operator_sre.gate.policy.schema import BUDGETS, read_policy
from tests.app.home import SUBJECTS, opened
from tests.every import every

BOB = Actor("bob", "user")
MINE = """# ours
version: 1
safe:
- id: mine
  why: because  # of this
  command: foo
  match: foo
egress: {allow: [a.example.com,], deny: [bad.example.com]}  # few
budgets:
    turns_max: 10 # few
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The settings of a project without a policy."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "operator.toml").write_text("# ours\nusd_per_day = 10 # a day\n\n[subjects]\n")
    return load_config(flags={"home": str(folder / "home")}, environ={}, cwd=folder)


def _host(host: str, port: int = 0, **more: bool) -> WantedHost:
    return WantedHost(host, port, scripts=more.pop("scripts", bool(port)), **more)


UNDERSTOOD = [
    ("allow host api.example.com", _host("api.example.com")),
    ("Please allow access to API.Example.com.", _host("api.example.com")),
    ("permit the domain api.example.com", _host("api.example.com")),
    ("open egress to https://api.example.com/", _host("api.example.com")),
    ("allow api.example.com", _host("api.example.com")),
    ("allow host api.example.com port 443", _host("api.example.com", 443)),
    ("allow api.example.com:8443", _host("api.example.com", 8443)),
    ("could you allow host 8.8.8.8 on port 53", _host("8.8.8.8", 53)),
    ("let scripts reach api.example.com", _host("api.example.com", scripts=True)),
    ("allow host api.example.com for scripts", _host("api.example.com", scripts=True)),
    ("allow host *.example.com high", _host("*.example.com", wide=True, high=True)),
    ("allow host 10.1.2.3 (high)", _host("10.1.2.3", private=True, high=True)),
    ("allow network 192.0.2.0/24", _host("192.0.2.0/24", wide=True, private=True)),
    ("allow host [2606:4700::1111]:443", _host("2606:4700::1111", 443)),
    ("allow host db1", _host("db1", private=True)),
    ("allow host box.internal", _host("box.internal", private=True)),
    ("allow command jobctl depth mail", WantedCommand(("jobctl", "depth", "mail"))),
    ("permit running `jobctl depth --json`", WantedCommand(("jobctl", "depth", "--json"))),
    ("allow command jobctl level high", WantedCommand(("jobctl", "level", "high"))),
    ("allow command jobctl drain (high)", WantedCommand(("jobctl", "drain"), high=True)),
    ("raise budget turns to 60", WantedBudget("turns_max", 60)),
    ("increase the budget to 90 minutes", WantedBudget("seconds_max", 5400)),
    ("set usd budget to $5.50", WantedBudget("usd_max", 5.5)),
    ("allow 300000 tokens per run", WantedBudget("tokens_max", 300_000)),
    ("raise dollars per day to 40", WantedBudget("usd_per_day", 40, daily=True)),
    ("bind credential DB_PASS to subject shop", WantedBinding("DB_PASS", "subject", "shop")),
    ("let the model claude use the secret KEY", WantedBinding("KEY", "model", "claude")),
]


@every(("text", "wanted"), UNDERSTOOD)
def test_plain_requests_are_understood(text: str, wanted: object) -> None:
    assert parse_request(text) == wanted


NOT_UNDERSTOOD = [
    "",
    "do something",
    "allow",
    "allow everything",
    "allow curl",
    "allow deploy.sh",
    "allow host a.example.com and b.example.com",
    "allow host a.example.com, b.example.com",
    "allow host example.com\n  - '*'",
    "allow host example.com\r\negress: {allow: ['*']}",
    "allow host example.com # comment",
    "allow host \"example.com\", '*'",
    "allow host exаmple.com",
    "allow host ｅxample.com",
    "allow host example.com/path",
    "allow host https://example.com/path",
    "allow host https://user:secret@example.com",
    "allow host 0x7f.0.0.1",
    "allow host 2130706433",
    "allow host 127.1",
    "allow host example.com port 0",
    "allow host example.com port 99999",
    "allow host example.com:80 port 81",
    "allow host ex*mple.com",
    "allow host *.*.com",
    "allow host -example.com",
    "allow host " + "a." * 300 + "com",
    "allow command rm *",
    "allow command jobctl; rm -rf /",
    "allow command jobctl $(id)",
    "allow command jobctl 'a b'",
    "allow command jobctl > /etc/passwd",
    "allow command X=1 jobctl",
    "allow command jobctl\nrm",
    "raise budget turns to many",
    "raise turns to 60 dollars",
    "raise turns per day to 5",
    "raise budget to 60",
    "bind credential a/b to subject shop",
    "bind credential A to subject shop and model claude",
    "allow host example.com " * 100,
]


@every("text", NOT_UNDERSTOOD)
def test_what_is_not_clear_is_no_patch(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_request(text)
    assert refused.value.next_step


def _loosened(book: Rulebook, edit: Edit) -> dict[str, object]:
    """What the new book says otherwise, field by field."""
    new = book_of(edit.new, "policy.yaml")
    return {
        name: getattr(new, name)
        for name in book.__struct_fields__
        if getattr(new, name) != getattr(book, name)
    }


_LETTERS = st.sampled_from(
    [*"ab.*-_:/@#'\"[]{}, \n\t|&>!%$()0x1\\~?é\u202e", "com", "allow", "high", "port", "for"]
)
_NEARLY = st.sampled_from(["", "x.example.com", "jobctl depth", "60", "K to subject shop"])


@settings(max_examples=120, deadline=None)
@given(
    before=st.sampled_from(
        ["allow host ", "allow command ", "raise turns to ", "bind credential "]
    ),
    right=_NEARLY,
    text=st.lists(_LETTERS, max_size=12).map("".join),
)
def test_hostile_text_never_allows_more_than_one_named_thing(
    config: Config, before: str, right: str, text: str
) -> None:
    for mine in (None, MINE):
        try:
            wanted = parse_request(before + right + text)
            if isinstance(wanted, WantedBinding):
                assert (wanted.kind, wanted.holder[:4]) == ("subject", "shop")
                return
            edit = draft_edit(config, wanted, lambda file, mine=mine: mine)  # type: ignore[misc]
        except OperatorError:
            continue
        book = built_in() if mine is None else book_of(mine, "policy.yaml")
        changed = _loosened(book, edit)
        assert len(changed) == 1, changed
        _only_what_was_asked(wanted, book, changed)


def _only_what_was_asked(wanted: object, book: Rulebook, changed: dict[str, object]) -> None:
    ((name, value),) = changed.items()
    if isinstance(wanted, WantedHost):
        assert (name, (wanted.wide or wanted.private) and not wanted.high) == ("egress", False)
        assert isinstance(value, Egress)
        added = {*value.allow, *value.scripts} - {*book.egress.allow, *book.egress.scripts}
        assert len(added) == 1
        assert added.pop().partition(":")[0] == wanted.host.partition(":")[0]
        assert (value.deny, value.people) == (book.egress.deny, book.egress.people)
    elif isinstance(wanted, WantedCommand):
        assert name == "rules"
        assert isinstance(value, tuple)
        known = {rule.id for rule in book.rules}
        (rule,) = [rule for rule in value if rule.id not in known]
        assert rule.match == (wanted.line,)
    else:
        assert name == "budgets"


@every(
    ("text", "says"),
    [
        ("allow host *.example.com", "more than one host"),
        ("allow host localhost (high)", "already"),
        ("allow host 10.1.2.3 (high)", "already"),
        ("allow host 64:ff9b::7f00:1", "is an internal address"),
        ("allow host 2002:7f00:1::", "is an internal address"),
        ("allow host 127.0.0.1.nip.io", "is an internal address"),
        ("allow host 7f000001.nip.io", "is an internal address"),
        ("allow host db.10-0-0-1.example.com", "is an internal address"),
        ("allow host localhost.localdomain", "is an internal address"),
        ("allow host *", "more than one host"),
        ("allow host 10.0.0.0/8 port 80", "more than one host"),
        ("allow host 10.0.0.3 port 80", "is an internal address"),
        ("allow host 127.0.0.1 port 80", "is an internal address"),
        ("allow host localhost", "is an internal address"),
        ("allow host 169.254.169.254 port 80 high", "policy denies"),
        ("allow command rm -rf /", "blocked"),
        ("allow command ls", "already"),
        ("allow command kubectl delete pod x", "must be requested"),
        ("raise turns to 5000", "from 1 to 1000"),
        ("raise turns to 2.5", "whole number"),
        ("raise turns to 40", "already"),
        ("raise usd per day to 999999999", "between"),
    ],
)
def test_what_must_be_meant_or_cannot_be_is_refused(config: Config, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        sketch(config, text)


@every(
    ("text", "boundary", "risk"),
    [
        ("allow host github.com port 443", Boundary.EGRESS, Risk.LOW),
        ("allow host api.example.org", Boundary.EGRESS, Risk.MEDIUM),
        ("allow host *.example.com (high)", Boundary.EGRESS, Risk.HIGH),
        ("allow host 10.0.0.3 port 80 high", Boundary.EGRESS, Risk.HIGH),
        ("allow command jobctl depth", Boundary.POLICY_PATCH, Risk.MEDIUM),
        ("allow command kubectl delete pod x (high)", Boundary.POLICY_PATCH, Risk.HIGH),
        ("allow command rm -rf /var/lib/app/x (high)", Boundary.POLICY_PATCH, Risk.CRITICAL),
        ("allow command python3 /tmp/x.py (high)", Boundary.POLICY_PATCH, Risk.CRITICAL),
        ("allow host 64:ff9b::808:808", Boundary.EGRESS, Risk.MEDIUM),
        ("allow host 8-8-8-8.example.com", Boundary.EGRESS, Risk.MEDIUM),
        ("raise turns to 60", Boundary.POLICY_PATCH, Risk.LOW),
        ("raise turns to 300", Boundary.POLICY_PATCH, Risk.MEDIUM),
        ("raise usd to 500", Boundary.POLICY_PATCH, Risk.HIGH),
        ("bind credential DB to subject shop", Boundary.CREDENTIAL_BINDING, Risk.MEDIUM),
    ],
)
def test_the_risk_is_told(config: Config, text: str, boundary: Boundary, risk: Risk) -> None:
    found = sketch(config, text)
    assert isinstance(found, Sketch)
    assert (found.wanted.boundary, found.wanted.risk) == (boundary, risk)
    assert found.patch.startswith("---")
    assert found.wanted.rationale


def test_an_option_says_high_as_well(config: Config) -> None:
    assert sketch(config, "allow host *.example.com", risk="high").wanted.risk is Risk.HIGH
    with pytest.raises(UsageError, match="--risk"):
        sketch(config, "allow host *.example.com", risk="low")


def test_every_letter_that_is_not_meant_stays(config: Config) -> None:
    for text in ("allow host x.example.com", "allow command bar baz", "raise turns to 20"):
        edit = draft_edit(config, parse_request(text), lambda file: MINE)  # type: ignore[arg-type]
        kept = [line for line in MINE.splitlines() if line in edit.new.splitlines()]
        assert len(kept) >= len(MINE.splitlines()) - 1
        assert "# ours" in edit.new
        assert "# few" in edit.new
    assert set(FOUND) == {"host", "command", "budget"}
    assert request_of(WantedBudget("turns_max", 5))["kind"] == "budget"


@every(
    ("before", "after"),
    [
        ("version: 1\n", 'version: 1\n\negress:\n  allow: ["x"]\n'),
        ("version: 1", 'version: 1\n\negress:\n  allow: ["x"]\n'),
        ("egress:\n  deny: [a]\n", 'egress:\n  allow: ["x"]\n  deny: [a]\n'),
        ("egress: {deny: [a]}\n", 'egress: {allow: ["x"], deny: [a]}\n'),
        ("egress: {}\n", 'egress: {allow: ["x"]}\n'),
        ("egress:\n  allow: a # b\n", 'egress:\n  allow: [a, "x"] # b\n'),
        ("egress:\n  allow: [] # b\n", 'egress:\n  allow: ["x"] # b\n'),
        ("egress:\n  allow:\n  - a # b\n", 'egress:\n  allow:\n  - "x"\n  - a # b\n'),
        ("egress:\n  allow: [a,\n    b]\n", 'egress:\n  allow: [a,\n    b, "x"]\n'),
    ],
)
def test_a_list_grows_however_it_is_written(before: str, after: str) -> None:
    assert with_words(before, "egress", "allow", ["x"]) == after


def test_numbers_and_settings_are_set_where_they_stand() -> None:
    assert with_number("a: {b: 1}\n", "a", "b", "2") == "a: {b: 2}\n"
    assert with_number("", "a", "b", "2") == "version: 1\n\na:\n  b: 2\n"
    assert with_setting("x = 1 # y\n[t]\nx = 1\n", "x", "2") == "x = 2 # y\n[t]\nx = 1\n"
    assert with_setting("[t]\nx = 1\n", "x", "2") == "x = 2\n[t]\nx = 1\n"
    assert '{"id": "a"}' in with_rule("safe: []\n", "safe", {"id": "a"})
    with pytest.raises(UsageError, match="cannot be extended"):
        with_words("egress: [a]\n", "egress", "allow", ["x"])


def test_a_credential_that_is_not_there_is_bound_to_nobody(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        with pytest.raises(OperatorError, match="DB_PASS"):
            asyncio.run(propose(app, "bind credential DB_PASS to subject shop"))
        assert app.store.confirmations.find() == []
        turns = sketch_for(app, "raise turns to 60")
        assert turns.wanted.boundary is Boundary.POLICY_PATCH
        assert patch_of(turns.wanted) == turns.patch


def test_a_limit_of_a_day_is_a_setting(tmp_path: Path) -> None:
    with opened(tmp_path, "usd_per_day = 10 # a day\n") as app:
        found = asyncio.run(propose(app, "raise usd per day to 15"))
        assert "operator.toml" in found.patch
        asyncio.run(approve(app, found.confirmation.id, BOB))
    assert (tmp_path / "operator.toml").read_text() == "usd_per_day = 15 # a day\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy of the user's, which others may read."""
    file = tmp_path / "policy.yaml"
    file.write_text(MINE)
    file.chmod(0o640)
    return file


def test_proposing_changes_nothing_and_a_yes_makes_it(tmp_path: Path, policy: Path) -> None:
    with opened(tmp_path) as app:
        before = app.rules().digest
        found = asyncio.run(propose(app, "allow host x.example.com", by=Actor("mind", "agent")))
        assert isinstance(found, Proposal)
        assert (policy.read_text(), found.destinations) == (MINE, ("x.example.com",))
        assert '+egress: {allow: [a.example.com, "x.example.com",]' in found.patch
        done = asyncio.run(approve(app, found.confirmation.id, BOB))
        assert done.applied
        new = book_of(policy.read_text(), str(policy))
        assert new.egress.allow == ("a.example.com", "x.example.com")
        assert stat.S_IMODE(policy.stat().st_mode) == 0o640
        (told,) = [
            one for one in app.store.entries.after(0, limit=99) if one.kind is Kind.POLICY_CHANGED
        ]
        assert (told.payload["policy_old"], told.payload["policy_new"]) == (before, new.digest)
        assert told.payload["old"] == found.confirmation.change["old"]
        assert told.actor.id == "bob"


def test_a_policy_that_changed_meanwhile_is_left_alone(tmp_path: Path, policy: Path) -> None:
    with opened(tmp_path) as app:
        found = asyncio.run(propose(app, "allow host x.example.com"))
        policy.write_text(MINE + "# later\n")
        with pytest.raises(ConflictError, match="has changed"):
            asyncio.run(approve(app, found.confirmation.id, BOB))
        assert policy.read_text() == MINE + "# later\n"
        assert get(app, found.confirmation.id).state is ConfirmationState.EXPIRED
        policy.write_text("version: 1\nnonsense: 1\n")
        with pytest.raises(OperatorError):
            asyncio.run(propose(app, "allow host x.example.com"))


def test_of_two_patches_of_one_policy_the_second_is_asked_again(
    tmp_path: Path, policy: Path
) -> None:
    with opened(tmp_path) as app:
        one, other = (
            asyncio.run(propose(app, f"raise turns to {number}")).confirmation
            for number in (20, 30)
        )
        asyncio.run(approve(app, one.id, BOB))
        with pytest.raises(ConflictError):
            asyncio.run(approve(app, other.id, BOB))
        assert "turns_max: 20" in policy.read_text()


def test_a_no_changes_nothing(tmp_path: Path, policy: Path) -> None:
    with opened(tmp_path) as app:
        found = asyncio.run(propose(app, "raise turns to 20"))
        asyncio.run(decline(app, found.confirmation.id, BOB, reason="no"))
        with pytest.raises(ConflictError, match="declined"):
            asyncio.run(approve(app, found.confirmation.id, BOB))
        assert policy.read_text() == MINE


def test_a_link_stays_a_link_and_a_new_file_is_private(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text(MINE)
    (tmp_path / "policy.yaml").symlink_to(real)
    with opened(tmp_path) as app:
        found = asyncio.run(propose(app, "raise turns to 20"))
        asyncio.run(approve(app, found.confirmation.id, BOB))
    assert (tmp_path / "policy.yaml").is_symlink()
    assert "turns_max: 20" in real.read_text()
    other = tmp_path / "other"
    other.mkdir()
    with opened(other) as app:
        found = asyncio.run(propose(app, "raise turns to 20"))
        asyncio.run(approve(app, found.confirmation.id, BOB))
    assert stat.S_IMODE((other / "policy.yaml").stat().st_mode) == 0o600
    assert sorted(one.name for one in other.iterdir()) == ["home", "operator.toml", "policy.yaml"]


def test_every_budget_can_be_asked_for(config: Config) -> None:
    asked = {"turns", "commands", "seconds", "attempts", "tokens", "usd"}
    found = {}
    for unit in asked:
        wanted = parse_request(f"raise {unit} to 7")
        assert isinstance(wanted, WantedBudget)
        edit = draft_edit(config, wanted, lambda file: None)
        written = read_policy(edit.new, "policy.yaml", origin="policy.yaml")
        assert written.budgets == {wanted.setting: 7}
        found[wanted.setting] = unit
    assert set(found) == set(BUDGETS)


def test_a_request_has_an_end() -> None:
    assert REQUEST_CHARACTERS_MAX == 500
    with pytest.raises(UsageError, match="up to 500"):
        parse_request("allow host " + "a" * 1_000_000)
