"""Who is given a secret, after whose yes, for how long; and that its value is seen nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.confirmation import Boundary, ConfirmationState
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.errors import (
    AuthorityError,
    ConflictError,
    NotFoundError,
    ObservationError,
    OperatorError,
    UsageError,
)
from operator_sre.app.approvals import approve as approve_action
from operator_sre.app.commands import Execution, Wanted, execute_command
from operator_sre.app.confirmations import approve, cross, crossing_of, decline, request
from operator_sre.app.history import show_command, show_output
from operator_sre.app.models import key_state, thinking_model
from operator_sre.app.patches import propose
from operator_sre.app.secret_store import (
    Holder,
    give_variables,
    is_held,
    model_key,
    named_secret,
    secret_reader,
    variables_for,
)
from operator_sre.app.secrets import (
    CROSSING,
    Lease,
    SecretView,
    TriedSecret,
    binding_asked,
    holder_named,
    lease_asked,
    lease_draft,
    lease_secret,
    list_secrets,
    remove_secret,
    seconds_of,
    set_secret,
    sweep_leases,
    try_secret,
    unbind_secret,
    view_of,
)
from operator_sre.app.wiring import App
from operator_sre.config.settings import load_config
from tests.app.home import SUBJECTS, opened
from tests.every import expect_each
from tests.processes.runners import end_runner

VALUE = "kanarienvogel im Bergwerk 41"
ADA = Actor("ada", "user")
TOML = SUBJECTS + (
    '[subjects.shop.targets.access]\nuser = "ada"\npassword_file = "secret:db"\n'
    '[models.local]\nprovider = "openai-compatible"\nmodel = "m"\nkey_file = "secret:db"\n'
    'base_url = "http://127.0.0.1:9/v1"\n'
)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path, TOML, secrets_in="file", mode="execute") as app:
        yield app
    end_runner(tmp_path / "home" / "runner")


def keep(app: App, name: str = "db", value: str = VALUE) -> None:
    asyncio.run(set_secret(app, name, value))


def bind(app: App, to: str, variable: str = "", name: str = "db") -> ConfirmationState:
    asked = binding_asked(app, name, holder_named(to, variable))
    return asyncio.run(cross(app, asked, sure=True, by=ADA)).state


def entries(app: App, kind: Kind) -> list[Entry]:
    return [one for one in app.store.entries.after(0, limit=1000) if one.kind is kind]


def test_a_subject_and_a_model_are_given_what_is_bound_to_them(shop: App) -> None:
    read = secret_reader(shop.config, "shop")
    with pytest.raises(ObservationError, match="operator secrets set db") as unset:
        read("secret:db")
    assert unset.value.category is ErrorCategory.MISSING_SECRET_BINDING
    assert unset.value.next_action is NextAction.SET_SECRET
    keep(shop)
    with pytest.raises(ObservationError, match="bind db --to subject:shop"):
        read("secret:db")
    assert key_state(shop.config, "local") == "not set"
    assert bind(shop, "subject:shop") is ConfirmationState.APPROVED
    assert read("secret:db") == VALUE
    with pytest.raises(ObservationError, match="not bound to 'subject:other'"):
        secret_reader(shop.config, "other")("secret:db")
    bind(shop, "model:local")
    assert model_key(shop.config, "secret:db", ("local", "x")) == VALUE
    assert key_state(shop.config, "local") == "set"
    settings = shop.settings_of("shop", tuple)
    assert settings.secret("secret:db") == VALUE
    asyncio.run(unbind_secret(shop, "db", Holder("subject", "shop")))
    with pytest.raises(ObservationError):
        settings.secret("secret:db")


def test_a_bound_key_makes_claude_think(shop: App) -> None:
    assert thinking_model(shop.config) == "reasoner"
    keep(shop, "claude-key")
    bind(shop, "model:anthropic", name="claude-key")
    assert thinking_model(shop.config) == "claude"
    assert is_held(shop.config, "model", ("claude", "anthropic"))
    assert not is_held(shop.config, "model", ("local",))


def test_a_command_is_given_a_secret_only_when_it_is_exactly_one_that_fits(shop: App) -> None:
    keep(shop)
    bind(shop, "command:pg_dump -h * shop", "PGPASSWORD")
    bind(shop, "command:psql *", "PGPASSWORD")

    def check(line: str, fits: bool) -> None:
        found = variables_for(shop.config, Action.shell(line))
        assert found == ({"PGPASSWORD": VALUE} if fits else {}), line

    expect_each(
        [
            ("pg_dump -h db1 shop", True),
            ("pg_dump  -h  db2   shop", True),
            ("psql -c 'select 1'", True),
            ("psql", True),
            ("pg_dump -h db1 other", False),
            ("pg_dump -h db1 shop extra", False),
            ("pg_dump -h a b shop", False),
            ("xpsql -c x", False),
            ("psql -c x; env", False),
            ("psql -c x && env", False),
            ("psql -c x | tee /tmp/x", False),
            ("psql -c x > /tmp/x", False),
            ("psql -c $PGPASSWORD", False),
            ("psql -c `env`", False),
            ("psql -c '\\! env'", False),
            ("psql\nenv", False),
            ("psql 'unclosed", False),
            ("", False),
        ],
        check,
    )


def test_another_machine_is_given_only_what_was_bound_for_it(shop: App) -> None:
    keep(shop)
    keep(shop, "far", "the value for over there")
    bind(shop, "command:psql *", "PGPASSWORD")
    asked = binding_asked(shop, "far", holder_named("command@node-1:psql *", "PGPASSWORD"))
    assert "at 'node-1'" in asked.rationale
    assert asked.destinations == ("command@node-1:psql *",)
    assert asyncio.run(cross(shop, asked, sure=True, by=ADA)).applied
    here = Action.shell("psql shop")
    there, elsewhere = (replace(here, target=name) for name in ("node-1", "node-2"))
    near, far = {"PGPASSWORD": VALUE}, {"PGPASSWORD": "the value for over there"}
    assert variables_for(shop.config, here) == near
    assert variables_for(shop.config, elsewhere) == near
    assert variables_for(shop.config, here, away=True) == {}
    assert variables_for(shop.config, elsewhere, away=True) == {}
    assert variables_for(shop.config, there, away=True) == far
    with give_variables("psql shop", {"LEASED": "only here"}):
        assert variables_for(shop.config, there, away=True) == far
    asyncio.run(unbind_secret(shop, "far", holder_named("command@node-1:psql *")))
    assert variables_for(shop.config, there, away=True) == {}


def test_nonsense_is_refused_with_one_sentence(shop: App) -> None:
    keep(shop)
    long = "x" * 70_000
    deeds: list[Callable[[], object]] = [
        lambda: keep(shop, "", VALUE),
        lambda: keep(shop, "../../etc", VALUE),
        lambda: keep(shop, "a" * 65, VALUE),
        lambda: keep(shop, "a b", VALUE),
        lambda: keep(shop, "short", "12345"),
        lambda: keep(shop, "long", long),
        lambda: keep(shop, "nul", "a\0bcdefgh"),
        lambda: bind(shop, "nobody"),
        lambda: bind(shop, "subject:"),
        lambda: bind(shop, "subject:nowhere"),
        lambda: bind(shop, "model:nowhere"),
        lambda: bind(shop, "subject:shop", "PGPASSWORD"),
        lambda: bind(shop, "command:* x", "PGPASSWORD"),
        lambda: bind(shop, "command:/bin/ba*", "PGPASSWORD"),
        lambda: bind(shop, "command:/bin/bash x", "PGPASSWORD"),
        lambda: bind(shop, "command:printenv *", "PGPASSWORD"),
        lambda: bind(shop, "command:python3 *", "PGPASSWORD"),
        lambda: bind(shop, "command:/usr/bin/perl *", "PGPASSWORD"),
        lambda: bind(shop, "command:env", "PGPASSWORD"),
        lambda: bind(shop, "command:psql\x1b[2J", "PGPASSWORD"),
        lambda: bind(shop, "command:psql", "LD_PRELOAD"),
        lambda: bind(shop, "command:psql", "PATH"),
        lambda: bind(shop, "command:psql", "OPERATOR_TREE"),
        lambda: bind(shop, "command:psql", "A=B"),
        lambda: bind(shop, "subject:shop", name="nowhere"),
        lambda: bind(shop, "command@nowhere:psql", "PGPASSWORD"),
        lambda: bind(shop, "command@:psql", "PGPASSWORD"),
        lambda: bind(shop, "subject@node-1:shop"),
        lambda: asyncio.run(unbind_secret(shop, "db", Holder("subject", "shop"))),
        lambda: asyncio.run(unbind_secret(shop, "nowhere", Holder("subject", "shop"))),
        lambda: asyncio.run(remove_secret(shop, "nowhere")),
        lambda: named_secret(shop.config, "x" * 500),
        lambda: lease_asked(shop, Lease("db", " ", "X_KEY", False, 5)),
        lambda: lease_asked(shop, Lease("db", "true", "PATH", False, 5)),
        lambda: lease_asked(shop, Lease("db", "true", "X_KEY", False, 0)),
        lambda: lease_asked(shop, Lease("db", "true", "X_KEY", False, 601)),
        lambda: seconds_of("soon"),
        lambda: seconds_of("-5m"),
    ]
    for number, deed in enumerate(deeds):
        with pytest.raises(OperatorError) as refused:
            deed()
        told = str(refused.value)
        assert isinstance(refused.value, UsageError | NotFoundError), number
        assert len(told) < 600, number
        assert VALUE not in told
        assert long[:100] not in told
    assert [one.name for one in list_secrets(shop)] == ["db"]
    assert [one.payload["deed"] for one in entries(shop, Kind.SECRET_CHANGED)] == ["set"]


def test_binding_waits_for_a_yes_to_exactly_this_secret(shop: App) -> None:
    keep(shop)
    asked = binding_asked(shop, "db", holder_named("subject:shop"))
    assert (asked.boundary, asked.risk) == (Boundary.CREDENTIAL_BINDING, Risk.MEDIUM)
    assert binding_asked(shop, "db", holder_named("command:psql *")).risk is Risk.HIGH
    waiting = asyncio.run(request(shop, asked, by=ADA))
    assert list_secrets(shop)[0].holders == ()
    keep(shop, value="another value by now")
    with pytest.raises(ConflictError, match="the secret has changed since the request"):
        asyncio.run(approve(shop, waiting.id, ADA))
    again = asyncio.run(request(shop, binding_asked(shop, "db", holder_named("subject:shop"))))
    asyncio.run(decline(shop, again.id, ADA, reason="no"))
    assert list_secrets(shop)[0].holders == ()
    assert bind(shop, "subject:shop") is ConfirmationState.APPROVED
    with pytest.raises(ConflictError, match="already"):
        bind(shop, "subject:shop")
    assert crossing_of(Boundary.CREDENTIAL_BINDING) is CROSSING
    (last,) = [one for one in shop.store.confirmations.find() if one.applied]
    assert CROSSING.made(shop, last) is True
    changed = entries(shop, Kind.SECRET_CHANGED)[-1].payload
    assert changed == {"name": "db", "deed": "bound", "holder": "subject:shop", "as": ""}


def test_a_binding_that_a_program_proposes_is_made_by_the_yes_of_a_person(shop: App) -> None:
    keep(shop)
    proposal = asyncio.run(propose(shop, "bind credential db to subject shop"))
    assert list_secrets(shop)[0].holders == ()
    done = asyncio.run(approve(shop, proposal.confirmation.id, ADA))
    assert done.applied
    assert list_secrets(shop)[0].holders == (Holder("subject", "shop"),)


def test_agents_change_no_secrets(shop: App, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(shop)
    monkeypatch.setenv(shop.surroundings.mark, "1")
    with pytest.raises(AuthorityError, match="Agents propose, and people decide"):
        keep(shop, value="the value of an agent")
    with pytest.raises(AuthorityError):
        asyncio.run(remove_secret(shop, "db"))
    asked = binding_asked(shop, "db", holder_named("subject:shop"))
    assert asyncio.run(cross(shop, asked, sure=True)).state is ConfirmationState.PENDING
    assert list_secrets(shop)[0].holders == ()


def test_a_rotated_secret_stays_bound_and_a_removed_one_is_gone(shop: App) -> None:
    keep(shop)
    bind(shop, "subject:shop")
    keep(shop, value="the next value of it")
    assert secret_reader(shop.config, "shop")("secret:db") == "the next value of it"
    secret = named_secret(shop.config, "db")
    view = view_of(shop, secret)
    assert isinstance(view, SecretView)
    assert (view.holders, view.age_s >= 0) == ((Holder("subject", "shop"),), True)
    asyncio.run(remove_secret(shop, "db"))
    assert list_secrets(shop) == []
    deeds = [one.payload["deed"] for one in entries(shop, Kind.SECRET_CHANGED)]
    assert deeds == ["set", "bound", "changed", "removed"]


def test_trying_tells_who_gets_on_with_it(shop: App) -> None:
    keep(shop)
    (alone,) = asyncio.run(try_secret(shop, "db"))
    assert isinstance(alone, TriedSecret)
    assert (alone.works, alone.detail) == (True, "its value is set")
    bind(shop, "subject:shop")
    bind(shop, "command:psql *", "PGPASSWORD")
    found = {one.holder: one for one in asyncio.run(try_secret(shop, "db"))}
    assert not found["subject:shop"].works, "nothing listens at its port"
    assert found["command:psql *"].works
    assert VALUE not in str(found)


def run(app: App, command: str) -> Execution:
    """Run it as a person who approves what they are asked for."""

    async def work() -> Execution:
        answers: list[asyncio.Task[object]] = []

        def asked(approval: Approval) -> None:
            yes = approve_action(app, approval.id, reason="a test")
            answers.append(asyncio.ensure_future(yes))

        done = await execute_command(app, Wanted(command, timeout_s=20), on_request=asked)
        await asyncio.gather(*answers)
        return done

    return asyncio.run(work())


def program(folder: Path) -> str:
    """A program that tells what it was given as CANARY, and how it was called."""
    file = folder / "tell-key"
    file.write_text("#!/bin/sh\nprintenv CANARY\ntr '\\0' ' ' < /proc/$$/cmdline\n")
    file.chmod(0o755)
    return str(file)


def files_with(folder: Path, value: str) -> list[str]:
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink() and value.encode() in file.read_bytes()
    ]


def test_a_canary_is_given_and_seen_nowhere(shop: App, tmp_path: Path) -> None:
    keep(shop)
    line = f"{program(tmp_path)} --now"
    bind(shop, f"command:{program(tmp_path)} *", "CANARY")
    done = run(shop, line)
    assert done.ran, done
    assert done.result.stdout.startswith("[REDACTED:kept_secret:"), "it was given, and not shown"
    assert "tell-key --now" in done.result.stdout, "what the list of processes shows"
    assert VALUE not in str(done)
    written = [str(one.payload) for one in shop.store.entries.after(0, limit=1000)]
    assert any("kept_secret" in one for one in written)
    assert not any(VALUE in one for one in written)
    whole: list[bytes] = []

    def hear(number: int, data: bytes) -> bool:
        whole.append(data)
        return True

    show_output(shop, done.command, hear)
    assert b"kept_secret" in b"".join(whole)
    assert VALUE.encode() not in b"".join(whole)
    assert VALUE not in str(show_command(shop, done.command))
    # Whole outputs lie in the spool as they were, for this home only, and are redacted when read.
    assert {one.split("/")[1] for one in files_with(tmp_path, VALUE)} <= {"spool"}


def test_what_is_given_is_for_exactly_one_line(shop: App) -> None:
    keep(shop)
    with give_variables("printenv X_KEY", {"X_KEY": VALUE}):
        assert variables_for(shop.config, Action.shell("printenv X_KEY")) == {"X_KEY": VALUE}
        assert variables_for(shop.config, Action.shell("printenv  X_KEY")) == {}
    assert variables_for(shop.config, Action.shell("printenv X_KEY")) == {}


def test_a_lease_is_for_one_command_and_leaves_nothing(shop: App, tmp_path: Path) -> None:
    keep(shop)
    lease = Lease("db", "printenv X_KEY", "X_KEY", in_file=False, seconds=seconds_of("1m"))
    assert lease.seconds == 60
    asked = lease_asked(shop, lease)
    assert (asked.boundary, asked.risk) == (Boundary.DIRECT_LEASE, Risk.HIGH)
    assert asked.credentials == ("db",)
    done = asyncio.run(cross(shop, asked, sure=True, by=ADA))
    assert done.applied, "it is used up"
    payload = lease_draft(lease, ADA).payload
    assert payload["name"] == "db"
    assert VALUE not in str(payload)
    with lease_secret(shop.config, lease):
        told = run(shop, lease.command).result.stdout
        assert told.startswith("[REDACTED:kept_secret:")
    assert run(shop, lease.command).result.stdout == "", "it was for once"
    assert shop.mode_of("machine") is Mode.EXECUTE
    by_file = Lease("db", "stat -c %a x", "X_FILE", in_file=True, seconds=30)
    with lease_secret(shop.config, by_file):
        (path,) = variables_for(shop.config, Action.shell(by_file.command)).values()
        assert Path(path).read_text() == VALUE
        assert Path(path).stat().st_mode & 0o777 == 0o600
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
        assert sweep_leases(shop.config) == 0, "it is not over yet"
    assert not Path(path).exists()


def test_what_a_killed_lease_leaves_is_taken_away_when_it_is_over(shop: App) -> None:
    left = shop.config.home / "leases" / "1000-abcd"
    left.mkdir(parents=True)
    (left / "value").write_text(VALUE)
    assert sweep_leases(shop.config) == 1
    assert not left.exists()


def test_a_secret_that_cannot_be_had_refuses_the_command(shop: App, tmp_path: Path) -> None:
    keep(shop)
    bind(shop, f"command:{program(tmp_path)}", "CANARY")
    key = shop.config.home / "secrets.key"
    key.chmod(0o640)
    done = run(shop, program(tmp_path))
    key.chmod(0o600)
    assert not done.ran
    assert "chmod 600" in done.explanation + done.result.stderr


def test_a_certificate_key_has_to_be_a_file(tmp_path: Path) -> None:
    toml = TOML.replace(
        'password_file = "secret:db"', 'password_file = "p"\ntls = true\nca_file = "secret:db"'
    )
    (tmp_path / "operator.toml").write_text(toml)
    with pytest.raises(UsageError, match="must be a file"):
        load_config(flags={}, environ={}, cwd=tmp_path)
