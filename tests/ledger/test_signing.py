"""The key is made once, belongs to its owner, and signs what nobody else can."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from operator_protocols.errors import StoreError
from operator_sre.ledger import KeyFile
from operator_sre.ledger.keys import signature_holds


def test_the_key_is_made_at_first_use_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "home" / "ledger.key"
    key = KeyFile(path)
    assert not path.exists()
    signature = key.sign(b"head")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert signature_holds(key.key, b"head", signature)
    assert list(path.parent.iterdir()) == [path]


def test_a_signature_holds_for_its_message_and_its_key_only(tmp_path: Path) -> None:
    key, other = KeyFile(tmp_path / "a"), KeyFile(tmp_path / "b")
    signature = key.sign(b"head")
    assert not signature_holds(key.key, b"heap", signature)
    assert not signature_holds(other.key, b"head", signature)
    assert not signature_holds("not hex", b"head", signature)
    assert not signature_holds(key.key, b"head", b"short")


def test_the_key_stays_the_same(tmp_path: Path) -> None:
    assert KeyFile(tmp_path / "key").key == KeyFile(tmp_path / "key").key


def test_of_many_that_make_it_at_once_all_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: KeyFile(tmp_path / "key").key, range(64)))
    assert len(keys) == 1


def test_a_file_that_is_no_key_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("precious")
    with pytest.raises(StoreError, match="8 bytes instead of 32"):
        KeyFile(path).sign(b"head")
    assert path.read_text() == "precious"


def test_a_place_that_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be read or made"):
        KeyFile(tmp_path / "file" / "key").sign(b"head")
