"""Verbs that no other test asks for their document: each prints one that its schema describes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from dataclasses import replace

from operator_sre.clock import SystemClock
from tests.app.home import opened
from tests.contract.samples import approval
from tests.contract_messages.holding import held_to_schema
from tests.e2e.home import OPERATOR, Home
from tests.e2e.waiting import eventually

DECLARED = """
[subjects.shop]
plugin = "ratelimiter"
[[subjects.shop.targets]]
name = "node-1"
kind = "node"
port = 1
"""


def test_what_a_home_is_asked_for_is_told_in_documents(home: Home) -> None:
    (home.cwd / "operator.toml").write_text(DECLARED)
    for line in (
        "alerts list",
        "hub pending",
        "notify status",
        "store check",
        "store rebuild",
        "store backup backup.db",
        "store migrate",
        "kill-switch on --reason enough",
        "kill-switch status",
        "limits reset shop --reason again",
        "tokens create grafana",
        "tokens list",
        "secrets list",
        "completion bash",
        "doctor",
        "subjects init web --kind blank",
        "history patterns create restart true --category web",
        "redact",
        "init fresh",
        "pack fresh -o fresh.operator",
    ):
        done = home.run(*line.split(), "--json")
        assert done.code in (0, 1), (line, done)
        assert "error" not in done.json, (line, done)


def test_addresses_that_cannot_be_told_are_told_in_documents(home: Home) -> None:
    (home.cwd / "operator.toml").write_text('[notify]\nurls_file = "urls"\n')
    (home.cwd / "urls").write_text("nosuch://hunter2\n")
    done = home.run("notify", "test", "--json")
    (channel,) = done.json["channels"]
    assert (done.code, bool(channel["problem"])) == (1, True)
    assert "hunter2" not in done.out + done.err


def test_lines_are_told_while_it_goes_on(home: Home) -> None:
    (home.cwd / "operator.toml").write_text(DECLARED)
    running = home.fork("up", "--json")
    eventually(lambda: '"ticket_opened"' in running.said, "a ticket is told")
    assert running.end() == 128 + signal.SIGTERM
    assert home.run("audit", "tail", "--json").code == 0


def test_what_people_answer_is_told_in_documents(home: Home) -> None:
    (home.cwd / "operator.toml").write_text(DECLARED)
    token = home.ask("tokens", "create", "grafana")["token"]["id"]
    asked = home.ask("hub", "request", "true", "--agent", "helper")["action"]
    for line in (
        f"hub result {asked} --agent helper",
        f"tokens revoke {token}",
        "init fresh",
        "pack fresh -o fresh.operator",
        "install fresh.operator --to copy --yes",
        "subjects init web --kind blank",
        "subjects test web.yaml",
        "store purge --before 2020-01-01 --yes",
    ):
        done = home.run(*line.split(), "--json")
        assert done.code in (0, 1, 4), (line, done)
        assert "error" not in done.json, (line, done)


def test_secrets_are_told_in_documents_without_their_values(home: Home) -> None:
    set_ = [str(OPERATOR), "secrets", "set", "pager", "--json", "--home", str(home.path)]
    done = subprocess.run(
        set_, input=b"hunter2-hunter2", cwd=home.cwd, capture_output=True, check=True, timeout=60
    )
    assert b"hunter2" not in done.stdout
    held_to_schema(set_[1:], done.stdout.decode())
    for line in (
        "secrets bind pager --to command:curl --as PAGER --yes",
        "secrets test pager",
        "secrets lease pager --command true --yes",
        "secrets unbind pager --to command:curl",
        "secrets remove pager --yes",
    ):
        answer = home.run(*line.split(), "--json")
        assert answer.code in (0, 1), (line, answer)
        assert "error" not in answer.json, (line, answer)
        assert "hunter2" not in answer.out


def test_answers_to_requests_are_told_in_documents(home: Home) -> None:
    (home.cwd / "operator.toml").write_text(DECLARED)
    now = SystemClock().now()

    async def ask() -> None:
        with opened(home.cwd, DECLARED) as app:
            for name in ("a1", "a2", "a3"):
                request = replace(approval(name, at=now), run="", ticket=None)
                await app.store.approvals.request(request)

    asyncio.run(ask())
    assert (
        home.ask("approvals", "reject", "a1", "--reason", "no")["approval"]["state"] == "rejected"
    )
    assert home.ask("approvals", "withdraw", "a2")["approval"]["state"] == "withdrawn"
    always = ("--always", "exact", "--scope", "subject")
    allowed = home.ask("approvals", "approve", "a3", *always)
    home.ask("approvals", "revoke", allowed["rule"]["id"])
    (home.cwd / "policy.yaml").write_text("version: 1\n")
    patch = home.run("recommend-patch", "allow host api.example.com", "--json").json
    home.ask("confirmations", "approve", patch["confirmation"]["confirmation_id"])
    assert "api.example.com" in (home.cwd / "policy.yaml").read_text()
