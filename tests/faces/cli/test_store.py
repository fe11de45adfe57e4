"""`operator store`: what it says, how it fails, and what it asks before it takes anything away."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from operator_sre.app.store import tidy_store
from operator_sre.app.wiring import open_app
from operator_sre.clock import SystemClock
from operator_sre.config import load_config
from operator_sre.faces.cli.main import main
from operator_sre.store import open_store
from operator_sre.store.schema import SCHEMA_VERSION
from tests.contract.clock import HeldClock
from tests.contract.postgres import database_in
from tests.store.life import Estate

TODAY = "2026-03-05"


@dataclass(frozen=True, slots=True)
class _Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


Run = Callable[..., _Done]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which everything has happened, a while ago."""
    (tmp_path / "home").mkdir(mode=0o700)
    Estate(str(tmp_path / "home" / "operator.db"), tmp_path / "home", HeldClock()).live()
    return tmp_path / "home"


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line on that home, with what a person types."""

    def act(*words: str, at: Path = home, typed: str | None = None) -> _Done:
        keyboard = io.StringIO(typed or "")
        monkeypatch.setattr(keyboard, "isatty", lambda: typed is not None)
        monkeypatch.setattr("sys.stdin", keyboard)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["store", *words, "--home", str(at)])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return _Done(ended.value.code, said.out, said.err)

    return act


def test_a_sound_store_is_said_to_be_sound(run: Run) -> None:
    done = run("check")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("The store is intact: ")
    answer = run("check", "--json")
    assert (answer.code, answer.json["sound"]) == (0, True)
    assert answer.json["report"]["differences"] == []


def test_a_difference_is_named_mended_and_gone(run: Run, home: Path) -> None:
    connection = sqlite3.connect(home / "operator.db")
    connection.execute("DELETE FROM tickets WHERE id = 2")
    connection.commit()
    connection.close()
    done = run("check")
    assert done.code == 1
    assert "DIFFERENT: tickets: 1 rows missing, 0 too many, 0 changed." in done.out
    assert "operator store rebuild" in done.out
    assert run("check", "--json").json["sound"] is False
    mended = run("rebuild", "--json")
    found = [{"table": "tickets", "missing": 1, "extra": 0, "changed": 0}]
    assert (mended.code, mended.json["differences"]) == (0, found)
    assert run("rebuild").out == "All tables match the ledger.\n"
    assert run("check").code == 0


def test_what_is_wrong_is_named(run: Run, home: Path) -> None:
    connection = sqlite3.connect(home / "operator.db")
    connection.execute("UPDATE entries SET run = 'x' WHERE seq = 3")
    connection.commit()
    connection.close()
    done = run("check")
    assert done.code == 1
    assert "WRONG: the bytes of entry 3 do not match its run.\n" in done.out


def test_a_backup_goes_to_another_home_and_back(run: Run, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "saved.db"
    saved = run("backup", str(file), "--json")
    assert saved.code == 0
    assert saved.json["backup"]["file"] == str(file)
    again = run("backup", str(file))
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "--force" in again.err
    told = run("backup", str(file), "--force")
    assert (told.code, "ledger.key" in told.out) == (0, True)
    restored = run("restore", str(file), at=tmp_path / "new")
    assert (restored.code, restored.err) == (0, "")
    assert run("check", at=tmp_path / "new").code == 0
    refused = run("restore", str(file))
    assert refused.code == 2
    assert "not empty" in refused.err
    replaced = run("restore", str(file), "--force", "--json").json["restored"]
    assert replaced["head"] == saved.json["backup"]["head"]
    assert Path(replaced["saved"]).parent == home / "backups"
    assert "The previous store is in" in run("restore", str(file), "--force").out


def test_a_backup_with_a_passphrase_brings_every_key_and_without_it_says_what_is_missing(
    run: Run, home: Path, tmp_path: Path
) -> None:
    word, file, new = tmp_path / "word", tmp_path / "saved.db", tmp_path / "new"
    word.write_text("correct horse battery\n")
    for name in ("ledger.key", "vault.key", "redaction.key"):
        if not (home / name).exists():
            (home / name).write_bytes(os.urandom(32))
            (home / name).chmod(0o600)
    wanted = {name: (home / name).read_bytes() for name in ("ledger.key", "vault.key")}
    told = run("backup", str(file), "--passphrase-file", str(word), "--json").json["backup"]
    assert {"ledger key", "vault key"} <= set(told["keys"])
    assert all(key not in file.read_bytes() for key in wanted.values()), "they are sealed"
    wrong = tmp_path / "wrong"
    wrong.write_text("correct horse batterx\n")
    refused = run("restore", str(file), "--passphrase-file", str(wrong), at=new)
    assert (refused.code, "The passphrase is wrong" in refused.err) == (2, True)
    assert not (new / "operator.db").exists()
    bare = run("restore", str(file), at=tmp_path / "bare")
    (sentence,) = [line for line in bare.out.splitlines() if line.startswith("Missing: ")]
    assert "no vault key (sealed contents of the ledger cannot be read)" in sentence
    assert "with --force and the passphrase" in sentence
    again = run(
        "restore", str(file), "--force", "--passphrase-file", str(word), at=tmp_path / "bare"
    )
    assert (again.code, "Missing" in again.out) == (0, False)
    whole = run("restore", str(file), "--passphrase-file", str(word), "--json", at=new)
    assert whole.json["restored"]["missing"] == []
    for place in (new, tmp_path / "bare"):
        assert {name: (place / name).read_bytes() for name in wanted} == wanted
        assert all((place / name).stat().st_mode & 0o077 == 0 for name in wanted)


def test_a_backup_that_cannot_seal_its_keys_is_not_written(
    run: Run, home: Path, tmp_path: Path
) -> None:
    word, file = tmp_path / "word", tmp_path / "saved.db"
    word.write_text("short\n")
    refused = run("backup", str(file), "--passphrase-file", str(word))
    assert (refused.code, "shorter than 8 characters" in refused.err) == (2, True)
    assert not file.exists()
    run("backup", str(file))
    before = file.read_bytes()
    assert run("backup", str(file), "--force", "--passphrase-file", str(word)).code == 2
    assert file.read_bytes() == before


def _confirmations(home: Path) -> list[tuple[str, str, bool, str]]:
    config = load_config(flags={"home": str(home)}, environ={}, cwd=home)
    with open_app(config) as app:
        return [
            (str(one.change.get("deed", one.boundary)), str(one.state), one.applied, one.reason)
            for one in app.store.confirmations.find()
            if "the requester" in one.reason
        ]


def test_a_store_that_cannot_be_opened_is_replaced_and_that_is_recorded(
    run: Run, home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "saved.db"
    assert run("backup", str(file)).code == 0
    (home / "operator.db").write_bytes(b"this is no database" * 1000)
    for name in ("operator.db-wal", "operator.db-shm"):
        (home / name).unlink(missing_ok=True)
    done = run("restore", str(file), "--force")
    assert (done.code, "The previous store is in" in done.out) == (0, True), done
    why = "confirmed by the requester; the store that was replaced could not be opened"
    assert _confirmations(home) == [("restore", "approved", True, why)]
    assert run("check").code == 0


def test_a_no_at_the_keyboard_is_recorded(run: Run, home: Path) -> None:
    assert run("purge", "--before", TODAY, typed="no\n").code == 4
    told = ("retention_purge", "declined", False, "declined by the requester")
    assert _confirmations(home) == [told]


def test_a_store_of_today_needs_no_migration(run: Run, tmp_path: Path) -> None:
    assert run("migrate").out == f"Nothing to do: the store has schema {SCHEMA_VERSION}.\n"
    assert "no store yet" in run("migrate", at=tmp_path / "nowhere").out
    assert run("migrate", "--json").json["backup"] is None


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("check",), 2, "no store at"),
        (("rebuild",), 2, "no store at"),
        (("backup", "x.db"), 2, "no store at"),
        (("restore", "nowhere.db"), 2, "no file"),
        (("purge", "--before", TODAY), 2, "no store at"),
        (("purge", "--before", "tomorrow"), 2, "not a date"),
        (("purge", "--before", "2999-01-01"), 2, "is in the future"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(
    run: Run, tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    done = run(*words, at=tmp_path / "nowhere")
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert says in done.err
    assert not (tmp_path / "nowhere" / "operator.db").exists()
    assert says in run(*words, "--json", at=tmp_path / "nowhere").json["error"]["message"]


def test_nothing_is_purged_unless_a_person_says_so(run: Run, home: Path) -> None:
    asked = run("purge", "--before", TODAY)
    assert asked.code == 4
    assert "This deletes permanently" in asked.out
    answer = run("purge", "--before", TODAY, "--json")
    count = answer.json["would_purge"]["entries"]
    assert (answer.code, count > 0) == (4, True)
    assert answer.json["confirmation_id"].startswith("conf_")
    wrong = run("purge", "--before", TODAY, typed="yes\n")
    assert (wrong.code, "Nothing was purged." in wrong.err) == (4, True)
    again = run("purge", "--before", TODAY, "--json").json["would_purge"]
    assert again["entries"] == count
    right = run("purge", "--before", TODAY, typed=f"{count}\n")
    assert right.code == 0
    assert right.out.startswith(f"Purged {count} entries, recorded as entry ")


def test_a_purge_by_a_program_is_recorded_with_its_user(run: Run, home: Path) -> None:
    done = run("purge", "--before", TODAY, "--yes", "--json")
    assert done.code == 0
    store = open_store(home / "operator.db", clock=SystemClock())
    entry = store.entries.get(done.json["recorded"])
    store.close()
    assert entry is not None
    assert entry.actor.type == "user"
    assert entry.payload["entries"] == done.json["purged"]
    assert done.json["gone"] is True
    assert run("purge", "--before", TODAY, "--yes").out == "Nothing to purge.\n"
    assert run("check").code == 0


def test_a_person_is_told_that_something_is_left_on_the_disk(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operator_sre.store.sqlite.BUSY_S", 0.2)
    config = load_config(flags={"home": str(home)}, environ={}, cwd=home)
    with closing(sqlite3.connect(home / "operator.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        done = run("purge", "--before", TODAY, "--yes")
        assert not tidy_store(config)
    first, second = done.out.splitlines()
    assert first.startswith("Purged ")
    assert "still on disk" in second
    assert tidy_store(config)


def test_every_verb_works_on_a_server_too(
    request: pytest.FixtureRequest, run: Run, tmp_path: Path
) -> None:
    with database_in("postgresql", tmp_path, request.config) as url:
        at = tmp_path / "server"
        on = ("--store", url)
        assert run("check", *on, at=at).code == 2
        saved = str(tmp_path / "saved.db")
        assert run("backup", saved).code == 0
        assert run("restore", saved, *on, at=at).code == 0
        assert run("check", *on, at=at).code == 0
        assert run("rebuild", "--json", *on, at=at).json["differences"] == []
        assert run("migrate", *on, at=at).code == 0
        assert run("purge", "--before", TODAY, *on, at=at).code == 4
        assert run("purge", "--before", TODAY, "--yes", *on, at=at).code == 0
        assert run("backup", str(tmp_path / "again.db"), *on, at=at).code == 0
        assert run("restore", saved, "--force", *on, at=at).code == 0
        assert [path.name for path in at.iterdir() if path.suffix == ".db"] == []
