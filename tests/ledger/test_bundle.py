"""A bundle verifies by itself, whole or in part, and not when it was tampered with."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from operator_protocols.errors import UsageError
from operator_sre.ledger import Report, verify
from operator_sre.ledger.bundle import Bundle, write_bundle
from tests.ledger.ledgers import ENTRIES, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def _export(ledger: Ledger, path: Path, *, whole: set[int] | None = None) -> int:
    store = ledger.open()
    try:
        return write_bundle(
            path,
            store.entries,
            store.checkpoints,
            key=ledger.key.key,
            keep=lambda entry: whole is None or entry.seq in whole,
        )
    finally:
        store.close()


def _verify(path: Path) -> Report:
    bundle = Bundle(path)
    return verify(bundle, bundle, trusted_key=bundle.key)


def _rewrite(path: Path, old: bytes, new: bytes) -> None:
    with zipfile.ZipFile(path) as bundle:
        parts = {name: bundle.read(name) for name in bundle.namelist()}
    assert old in parts["entries.jsonl"]
    parts["entries.jsonl"] = parts["entries.jsonl"].replace(old, new)
    with zipfile.ZipFile(path, "w") as bundle:
        for name, content in parts.items():
            bundle.writestr(name, content)


def test_a_bundle_verifies_without_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    assert _export(ledger, path) == ENTRIES
    report = ledger.report()
    ledger.path.unlink()
    assert _verify(path) == report


def test_a_bundle_of_some_entries_still_proves_them(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    assert _export(ledger, path, whole={3, 7}) == 2
    assert _verify(path).whole
    bodies = [row[0] for row in Bundle(path).raw(0, limit=100) if row[1] is not None]
    assert bodies == [3, 7]
    assert b"step 4" not in zipfile.ZipFile(path).read("entries.jsonl")


def test_an_edited_bundle_names_the_entry(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    _export(ledger, path)
    _rewrite(path, b"step 7", b"stop 7")
    assert [(one.seq, one.kind) for one in _verify(path).damages] == [(7, "edited")]


def test_the_manifest_says_what_is_inside(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    _export(ledger, path, whole={1})
    manifest = json.loads(zipfile.ZipFile(path).read("manifest.json"))
    assert (manifest["entries"], manifest["whole"]) == (ENTRIES, 1)
    assert manifest["key"] == ledger.key.key


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip at all" * 100])
def test_what_is_no_bundle_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a bundle"):
        Bundle(path)


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("manifest.json", "[]")
    with pytest.raises(UsageError, match="is not a bundle"):
        Bundle(path)
