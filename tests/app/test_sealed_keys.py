"""The keys of a home travel in a backup, sealed with a passphrase, and replace no other keys."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from operator_protocols.errors import UsageError
from operator_sre.app.sealed_keys import (
    ReturnedKeys,
    check_passphrase,
    has_sealed_keys,
    keys_of,
    missing_sentence,
    return_keys,
    seal_keys,
)
from operator_sre.config import Config, load_config

PASSPHRASE = "correct horse battery"


def _config(folder: Path) -> Config:
    folder.mkdir(mode=0o700)
    return load_config(flags={"home": str(folder)}, environ={}, cwd=folder)


@pytest.fixture
def old(tmp_path: Path) -> Config:
    """A home with all of its keys, and a backup beside it."""
    config = _config(tmp_path / "old")
    for name, path in keys_of(config).items():
        path.write_bytes(name.encode().ljust(32, b"."))
    with closing(sqlite3.connect(tmp_path / "saved.db")) as database:
        database.execute("CREATE TABLE entries (seq INTEGER)")
    return config


def test_every_key_returns_to_a_new_home_for_its_owner_only(old: Config, tmp_path: Path) -> None:
    backup, new = tmp_path / "saved.db", _config(tmp_path / "new")
    assert not has_sealed_keys(backup)
    assert set(seal_keys(old, backup, PASSPHRASE)) == set(keys_of(old))
    assert has_sealed_keys(backup)
    returned = return_keys(new, backup, PASSPHRASE, force=False)
    assert (set(returned.written), returned.missing) == (set(keys_of(old)), ())
    for name, path in keys_of(new).items():
        assert path.read_bytes() == keys_of(old)[name].read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600
    assert return_keys(new, backup, PASSPHRASE, force=False) == ReturnedKeys()


def test_a_wrong_or_short_passphrase_changes_nothing(old: Config, tmp_path: Path) -> None:
    backup, new = tmp_path / "saved.db", _config(tmp_path / "new")
    for refuse in (lambda: seal_keys(old, backup, "short"), lambda: check_passphrase("short")):
        with pytest.raises(UsageError, match="shorter than"):
            refuse()
    with pytest.raises(UsageError, match="contains no keys"):
        return_keys(new, backup, PASSPHRASE, force=True)
    seal_keys(old, backup, PASSPHRASE)
    with pytest.raises(UsageError, match="passphrase is wrong"):
        return_keys(new, backup, f"{PASSPHRASE}!", force=True)
    assert list((tmp_path / "new").iterdir()) == []


def test_another_key_of_the_home_is_replaced_only_on_purpose_and_kept(
    old: Config, tmp_path: Path
) -> None:
    backup, new = tmp_path / "saved.db", _config(tmp_path / "new")
    seal_keys(old, backup, PASSPHRASE)
    keys_of(new)["vault key"].write_bytes(b"mine".ljust(32))
    with pytest.raises(UsageError, match="another vault key"):
        return_keys(new, backup, PASSPHRASE, force=False)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["vault.key"]
    return_keys(new, backup, PASSPHRASE, force=True)
    (kept,) = (tmp_path / "new").glob("vault.key.replaced-*")
    assert kept.read_bytes() == b"mine".ljust(32)


def test_one_sentence_says_what_is_missing(old: Config, tmp_path: Path) -> None:
    missing = return_keys(
        _config(tmp_path / "new"), tmp_path / "saved.db", None, force=False
    ).missing
    assert missing == ("ledger key", "vault key", "redaction key")
    sentence = missing_sentence(missing, sealed=False)
    assert "no vault key (sealed contents of the ledger cannot be read)" in sentence
    assert "copy the files from the old home" in sentence
    assert "the passphrase of the backup" in missing_sentence(missing, sealed=True)
    assert missing_sentence((), sealed=True) == ""
