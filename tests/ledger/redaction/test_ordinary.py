"""Ordinary text comes out as it went in."""

from __future__ import annotations

import pytest

from operator_sre.ledger.redaction import Redactor
from tests.cases.corpora import commands_in
from tests.every import every
from tests.ledger.redaction.measuring import changed_lines
from tests.ledger.redaction.ordinary import families, ordinary_lines

HELD_OUT_SEED = 417_902
CHANGED_MAX = 0.001


def test_there_are_many_kinds_of_ordinary_text() -> None:
    assert len(families()) >= 24
    assert sum(map(len, families().values())) >= 450


def test_at_most_one_line_in_1000_changes(redactor: Redactor) -> None:
    changed, lines, examples = changed_lines(redactor, seed=HELD_OUT_SEED, count=8000)
    assert lines > 9000
    assert changed <= CHANGED_MAX * lines, examples[:10]


def test_lines_together_change_no_more_than_each_alone(redactor: Redactor) -> None:
    changed = lines = 0
    for seed in range(HELD_OUT_SEED, HELD_OUT_SEED + 10):
        text = "\n".join(ordinary_lines(seed, 300))
        pairs = zip(text.split("\n"), redactor.text(text).split("\n"), strict=False)
        changed += sum(before != after for before, after in pairs)
        lines += text.count("\n") + 1
    assert changed <= CHANGED_MAX * lines


@pytest.mark.parametrize("name", ["diagnostics", "secrets"])
def test_commands_without_secrets_stay(redactor: Redactor, name: str) -> None:
    commands = commands_in(name)
    changed = [command for command in commands if redactor.text(command) != command]
    assert len(changed) <= CHANGED_MAX * len(commands), changed[:5]


@every(
    "text",
    [
        "2 tests passed, 1 failed",
        "password: required",
        "token expired",
        "the secret of success",
        "PASSWORD_FILE=/run/secrets/db",
        "author=Ann Example",
        "commit 3f2504e04f8911d39a0c0305e82c3301aabbccdd",
        "id 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "image: nginx@sha256:" + "0123456789abcdef" * 4,
        "payload: aGVsbG8gd29ybGQsIHRoaXMgaXMgbm90IGEgc2VjcmV0Cg==",
        "password=<password> token=${TOKEN} pass=$PASSWORD secret=**** api_key=xxxxxxxx",
        "psql -h db -p 5432 -U app",
        "mysql -u root -p mydb",
        "connect(user=user, password=password)",
        "--- PASS: TestLogin2 (0.00s)",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----",
        "",
        " ",
        "\n\n\n",
    ],
)
def test_this_is_no_secret(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text
    assert redactor.report(text) == []


def test_a_default_password_is_a_secret_because_it_opens_doors(redactor: Redactor) -> None:
    assert "changeme" not in redactor.text("DB_PASSWORD=changeme")
    assert "changeme" not in redactor.text("password: changeme")


@every(
    "text",
    [
        '"refresh": {"id": "3fa85f64-5717-4562-b3fc-2c963f66afa6"}',
        'assertion: {"commit":"9d1f5a0c3b7e48d26a90b1c4e7f2338d5a6b0c91"}',
        'print("bad token"+str(x1)+"!")',
        '"invalid token"===t2?"a":"b"',
    ],
)
def test_ids_and_code_beside_a_word_of_secrets_stay(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


@every(
    "text",
    [
        "rejected password web01",
        "wrong password db-primary-2",
        "login failed: bad password node-3",
        "POST /hook/commits/89e6c98d92887913cadf06b2adb97f26cde4849b",
        "GET /hooks/app/sha/89e6c98d92887913cadf06b2adb97f26cde4849b HTTP/1.1",
    ],
)
def test_machines_and_digests_stay(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


@every(
    "text",
    [
        "rejected password hunter2",
        "wrong password redis123",
        "bad password: server123",
        "GET /hooks/app/refs/tRk3mB9pQzL0vX7c",
        "rejected password: web01",
        'rejected password "web01"',
        "password is web01",
        "GET /hooks/app/deploy/tRk3mB9pQzL0vX7c",
    ],
)
def test_what_only_looks_like_them_is_a_secret(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) != text
