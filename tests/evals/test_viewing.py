"""What is handed out of a database, and what never is."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from operator_evals.database import open_database
from operator_evals.gallery import LEDGERS, Bundle, Gallery, Measured
from operator_protocols.errors import NotFoundError, UsageError
from tests.evals.samples import RECORDED, fill, trials

FIRST = next(trials())


def test_what_was_computed_is_kept_until_somebody_writes(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path / "eval.db")
    assert gallery.campaigns() == []
    with pytest.raises(UsageError, match="no database"):
        gallery.campaign("reference")
    with open_database(gallery.path) as database:
        database.begin(RECORDED)
        database.keep(FIRST)
    found = gallery.campaign("reference")
    assert isinstance(found, Measured)
    assert gallery.campaign("reference") is found
    (shown,) = gallery.campaigns()
    assert (shown.trials, shown.planned) == (1, 70)
    with open_database(gallery.path) as database:
        database.keep(replace(FIRST, still="it is not over"))
    assert not gallery.campaign("reference").known[0].score.mitigated
    with pytest.raises(NotFoundError):
        gallery.trial("reference", "another")


def test_a_ledger_is_handed_out_and_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    fill(home / "eval.db")
    gallery = Gallery(home / "eval.db")
    bundle = gallery.bundle("reference", FIRST.key)
    assert isinstance(bundle, Bundle)
    with bundle.file as file, zipfile.ZipFile(file) as ledger:
        assert ledger.read("entries.jsonl").decode() == FIRST.key
    assert bundle.size_bytes == (home / FIRST.ledger).stat().st_size

    # Each is a real archive, so that nothing but its place is what is wrong with it.
    archive = (home / FIRST.ledger).read_bytes()
    for place in (tmp_path / "outside.bundle", home / "beside.bundle", home / LEDGERS / "key.pem"):
        place.write_bytes(archive)
    (home / LEDGERS / "key.pem").write_text("PRIVATE")
    (home / LEDGERS / "link.bundle").symlink_to(tmp_path / "outside.bundle")
    (home / LEDGERS / "way").symlink_to(tmp_path)
    os.mkfifo(home / LEDGERS / "pipe.bundle")
    wrong = (
        *("", ".", "..", "/", "\0", "ledgers", "ledgers/reference", "ledgers/none.bundle"),
        *("../outside.bundle", "ledgers/../../outside.bundle", "ledgers/../beside.bundle"),
        *(str(tmp_path / "outside.bundle"), "beside.bundle", "ledgers/key.pem", "eval.db"),
        *("ledgers/link.bundle", "ledgers/way/outside.bundle", "ledgers/pipe.bundle"),
        *("ledgers/reference/..\\..\\x", f"ledgers/{'x' * 5000}", "ledgers/a\0b", "~/x", "//x"),
    )
    for name in wrong:
        with open_database(home / "eval.db") as database:
            database.keep(replace(FIRST, ledger=name))
        with pytest.raises(NotFoundError):
            gallery.bundle("reference", FIRST.key)
