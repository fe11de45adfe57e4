"""Secrets on disk: sealed, whole after any death, changed by one process at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import keyring
import keyring.backend
import keyring.errors
import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.errors import NotFoundError, StoreError
from operator_sre.app.persons import signed_in
from operator_sre.app.redaction import KnownValues
from operator_sre.app.secret_store import Holder, Owed, Secret, SecretStore, open_secrets
from operator_sre.app.secrets import settle_changes, unbind_secret
from operator_sre.app.wiring import App
from operator_sre.ledger.redaction import Redactor
from tests.app.home import opened

AT = datetime(2026, 3, 4, tzinfo=UTC)
VALUE = "correct horse/battery+staple"
# Sets secrets in a loop until it is killed; each is as long as a file system's block and more.
WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from operator_sre.app.secret_store import Secret, SecretStore
home = Path(sys.argv[1])
store = SecretStore(home, home / "secrets.key", wanted="file")
for number in range(int(sys.argv[3])):
    with store.changing() as known:
        name = f"{sys.argv[2]}-{number % 40}"
        known[name] = store.stow(Secret(name, datetime.now(UTC), "ada"), f"{name}:" * 900)
    print(number, flush=True)
"""


def kept(home: Path, wanted: str = "file", **values: str) -> SecretStore:
    """A store with these secrets."""
    store = SecretStore(home, home / "secrets.key", wanted=wanted)
    with store.changing() as known:
        for name, value in values.items():
            known[name] = store.stow(Secret(name, AT, "ada"), value)
    return store


def writer(home: Path, name: str, count: int) -> subprocess.Popen[str]:
    """A process that changes secrets."""
    words = [sys.executable, "-c", WRITER, str(home), name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_value_is_kept_sealed_for_its_owner_only(tmp_path: Path) -> None:
    store = kept(tmp_path, db=VALUE)
    again = SecretStore(tmp_path, tmp_path / "secrets.key")
    assert again.value(again.all()["db"]) == VALUE
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert VALUE.encode() not in file.read_bytes(), file
    assert VALUE not in repr(store.all())
    assert store.all()["db"].identity.startswith("sha256:")


def test_a_file_that_others_may_read_is_refused_with_the_way_to_close_it(tmp_path: Path) -> None:
    store = kept(tmp_path, db=VALUE)
    for path in (store.path, store.key):
        path.chmod(0o644)
        with pytest.raises(StoreError, match=f"chmod 600 {path}") as refused:
            store.all()
        assert "mode 644" in refused.value.message
        path.chmod(0o600)
    assert list(store.all()) == ["db"]


def test_damage_and_another_key_are_told_and_nothing_is_lost(tmp_path: Path) -> None:
    store = kept(tmp_path, db=VALUE)
    whole, key = store.path.read_bytes(), store.key.read_bytes()
    for at in range(0, len(whole), 7):
        store.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StoreError, match="damaged"):
            store.all()
        with pytest.raises(StoreError), store.changing() as known:
            known.clear()
    store.path.write_bytes(whole)
    store.key.write_bytes(bytes(32))
    with pytest.raises(StoreError, match="the wrong key"):
        store.all()
    store.key.unlink()
    with pytest.raises(StoreError, match=r"secrets\.key"):
        store.all()
    assert not store.key.exists(), "a new key would make the loss final"
    store.key.write_bytes(key)
    store.key.chmod(0o600)
    assert store.value(store.all()["db"]) == VALUE


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    store = kept(tmp_path, db=VALUE)
    with suppress(RuntimeError), store.changing() as known:
        known.clear()
        raise RuntimeError
    assert list(store.all()) == ["db"]


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [writer(tmp_path, name, 20) for name in ("left", "right")]
    for one in writers:
        assert one.wait(60) == 0
        assert one.stdout is not None
        one.stdout.close()
    store = SecretStore(tmp_path, tmp_path / "secrets.key")
    assert len(store.all()) == 40


def test_a_killed_writer_leaves_a_whole_file_and_no_lock(tmp_path: Path) -> None:
    for _ in range(2):
        with writer(tmp_path, "victim", 100_000) as one:
            assert one.stdout is not None
            for _ in range(3):
                assert one.stdout.readline()
            os.kill(one.pid, signal.SIGKILL)
        store = kept(tmp_path, after=VALUE)
        found = store.all()
        assert all(
            store.value(two) == f"{name}:" * 900 for name, two in found.items() if name != "after"
        )
        assert not list(tmp_path.glob(".secrets.box.*")), "what it left was taken away"


DEEDS = ("set", "changed", "unbound", "removed")
# Does one thing to secrets in each home, in a process that is gone before the ledger hears of it.
KILLED = """
import asyncio, os, sys
from pathlib import Path
from operator_sre.app import secrets
from operator_sre.app.secret_store import Holder, SecretStore
from tests.app.home import opened
deeds = {
    "set": lambda app: secrets.set_secret(app, "new", "a value that is new"),
    "changed": lambda app: secrets.set_secret(app, "db", "a value that is new"),
    "unbound": lambda app: secrets.unbind_secret(app, "db", Holder("subject", "shop")),
    "removed": lambda app: secrets.remove_secret(app, "db"),
}
async def gone(app):
    os._exit(9)
def die(folder):
    secrets.settle_changes = gone
    write = SecretStore._write
    def once(self, *given):
        write(self, *given)
        if folder.parent.name == "before":
            os._exit(9)
    SecretStore._write = once
    with opened(folder, secrets_in="file") as app:
        asyncio.run(deeds[folder.name](app))
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        die(Path(name))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
"""


def deeds_of(app: App) -> list[tuple[str, str, str, bool]]:
    """What the ledger says of secrets."""
    found = app.store.entries.newest(limit=100, kind=Kind.SECRET_CHANGED)
    told = [(one.payload, one.actor) for one in reversed(found)]
    return [(one["name"], one["deed"], by.id, one.get("finished", True)) for one, by in told]


def test_what_a_killed_process_did_is_recorded_once_by_the_next(tmp_path: Path) -> None:
    folders = [tmp_path / when / deed for when in ("after", "before") for deed in DEEDS]
    held = Secret("db", AT, "ada", holders=(Holder("subject", "shop"),), value=VALUE)
    for folder in folders:
        folder.mkdir(parents=True)
        with kept(folder / "home").changing() as known:
            known["db"] = held
    subprocess.run([sys.executable, "-c", KILLED, *map(str, folders)], timeout=240, check=True)
    for folder in folders:
        whole, deed = folder.parent.name == "after", folder.name
        name = "new" if deed == "set" else "db"
        with opened(folder, secrets_in="file") as app:
            assert deeds_of(app) == []
            assert asyncio.run(settle_changes(app)) == 1
            told = "set" if deed == "changed" and not whole else deed
            assert deeds_of(app) == [(name, told, signed_in(), whole)]
            assert asyncio.run(settle_changes(app)) == 0
            assert len(deeds_of(app)) == 1
            known_now = open_secrets(app.config).all().get("db")
            assert (known_now == held) is (not whole or deed == "set")


def test_what_is_told_twice_is_recorded_once_and_a_refused_change_not_at_all(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, secrets_in="file") as app:
        store = open_secrets(app.config)
        owed = Owed("one", "db", "ada", {"deed": "set"})
        with store.changing(owed) as known:
            known["db"] = replace(Secret("db", AT, "ada"), value=VALUE)
        before = store.path.read_bytes()
        assert asyncio.run(settle_changes(app)) == 1
        store.path.write_bytes(before)  # as if it had been killed before it was crossed out
        assert asyncio.run(settle_changes(app)) == 1
        assert deeds_of(app) == [("db", "set", "ada", True)]
        with pytest.raises(NotFoundError):
            asyncio.run(unbind_secret(app, "db", Holder("subject", "nosuch")))
        assert store.list_owed() == ()
        store.drop_owed(["nosuch"])
        assert len(deeds_of(app)) == 1


class Ring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 9

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.kept:
            raise keyring.errors.PasswordDeleteError
        del self.kept[service, username]


def test_the_keyring_has_the_value_where_there_is_one(tmp_path: Path) -> None:
    before, ring = keyring.get_keyring(), Ring()
    keyring.set_keyring(ring)
    try:
        store = kept(tmp_path, "auto", db=VALUE)
        secret = store.all()["db"]
        assert (secret.where, secret.value) == ("keyring", "")
        assert store.value(secret) == VALUE
        assert list(ring.kept.values()) == [VALUE]
        store.drop(secret)
        store.drop(secret)
        with pytest.raises(StoreError, match="no longer in the keyring"):
            store.value(secret)
    finally:
        keyring.set_keyring(before)


def test_a_keyring_that_is_wanted_and_not_there_is_said(tmp_path: Path) -> None:
    from keyring.backends.fail import Keyring

    before = keyring.get_keyring()
    keyring.set_keyring(Keyring())  # type: ignore[no-untyped-call]
    try:
        with pytest.raises(StoreError, match='secrets_in = "file"'):
            kept(tmp_path, "keyring", db=VALUE)
        assert kept(tmp_path, "auto", db=VALUE).all()["db"].where == "file"
    finally:
        keyring.set_keyring(before)


def test_what_is_kept_is_found_in_any_text_in_any_form(tmp_path: Path) -> None:
    import base64
    import json
    from urllib.parse import quote

    multi = 'first line of it\nsecond "line" of it'
    store = kept(tmp_path, db=VALUE, pem=multi, pin="83641975")
    redactor = Redactor(bytes(32), KnownValues(store))
    coded = base64.b64encode(VALUE.encode() + b"\n").decode()
    texts = [
        f"it says {VALUE} here",
        f"https://x/?q={quote(VALUE, safe='')}",
        f"data: {coded}",
        json.dumps({"k": multi}),
        'a log\nsecond "line" of it\nend',
    ]
    for text in texts:
        told = redactor.text(text)
        assert "[REDACTED:kept_secret:" in told, text
        assert redactor.text(told) == told
        for part in (VALUE, quote(VALUE, safe=""), coded[:-6], "second", "first line"):
            assert part not in told
    assert redactor.value({"other": 83641976}) == {"other": 83641976}
    assert "83641975" not in str(redactor.value({"count": 83641975}))
    (found,) = redactor.report(f"say {VALUE}.")
    assert (found.start, found.end, found.kind) == (4, 4 + len(VALUE), "kept_secret")
    assert Redactor(bytes(32)).text(f"it says {VALUE} here") == f"it says {VALUE} here"


def test_who_runs_already_learns_of_a_new_secret_and_remembers_an_old_one(tmp_path: Path) -> None:
    store = kept(tmp_path)
    redactor = Redactor(bytes(32), KnownValues(store))
    assert redactor.text(VALUE) == VALUE
    kept(tmp_path, db=VALUE)
    assert VALUE not in redactor.text(VALUE)
    kept(tmp_path, db="another one entirely")
    assert VALUE not in redactor.text(VALUE)
    assert "entirely" not in redactor.text("another one entirely")
    store.path.write_bytes(b"damaged")
    assert VALUE not in redactor.text(VALUE), "redaction goes on with what it knows"


def test_the_key_may_lie_elsewhere(tmp_path: Path) -> None:
    key = tmp_path / "elsewhere.key"
    with opened(tmp_path, f'secrets_key = "{key}"\nsecrets_in = "file"') as app:
        store = open_secrets(app.config)
        with store.changing() as known:
            known["db"] = store.stow(Secret("db", AT, "ada", holders=(HOLDER,)), VALUE)
        assert store.all()["db"].holders == (HOLDER,)
    assert key.exists()
    assert not (tmp_path / "home" / "secrets.key").exists()
    assert key.stat().st_mode & 0o777 == 0o600


HOLDER = Holder("command", "pg_dump *", "PGPASSWORD")
