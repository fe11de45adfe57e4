"""Intact data files differ from files that were emptied, truncated or restored from a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from operator_protocols.kit.datafiles import DataFiles


@pytest.fixture
def place(tmp_path: Path) -> Path:
    home = tmp_path / "data"
    (home / "wal").mkdir(parents=True)
    (home / "wal" / "1.wal").write_bytes(b"a" * 64)
    (home / "wal" / "2.wal").write_bytes(b"b" * 64)
    (home / "db").write_bytes(b"c" * 1000)
    return home


def _empty(home: Path) -> None:
    shutil.rmtree(home / "wal")
    (home / "db").unlink()


def _cut(home: Path) -> None:
    (home / "wal" / "2.wal").write_bytes(b"b")


def _restore(home: Path) -> None:
    copy = home.with_name("copy")
    shutil.copytree(home, copy)
    shutil.rmtree(home)
    copy.rename(home)


def _write_on(home: Path) -> None:
    with (home / "wal" / "2.wal").open("ab") as log:
        log.write(b"more")


def _purge(home: Path) -> None:
    (home / "wal" / "1.wal").unlink()
    (home / "wal" / "2.wal").unlink()
    (home / "wal" / "3.wal").write_bytes(b"d")


@pytest.mark.parametrize(
    ("happens", "intact"),
    [
        (lambda _: None, True),
        (_write_on, True),
        (_purge, True),
        (lambda home: (home / "db").write_bytes(b"c" * 600), True),
        (lambda home: (home / "db").write_bytes(b"c" * 400), False),
        (lambda home: (home / "db").unlink(), False),
        (lambda home: (home / "wal" / "2.wal").unlink(), False),
        (_empty, False),
        (_cut, False),
        (_restore, False),
    ],
)
def test_what_happened_to_the_data_shows(
    place: Path, happens: Callable[[Path], object], intact: bool
) -> None:
    files = DataFiles(("wal/*.wal",), ("db",))
    assert files.compare(str(place), place, works=True) is True
    assert files.compare(str(place), place, works=True) is True
    happens(place)
    assert files.compare(str(place), place, works=False) is intact


def test_what_one_observer_saw_another_knows(place: Path) -> None:
    monitor, agent = (DataFiles(("wal/*.wal",), ("db",)) for _ in range(2))
    monitor.compare(str(place), place, works=True)
    monitor.compare(str(place), place, works=True)
    _cut(place)
    assert agent.compare(str(place), place, works=False) is False


def test_a_check_during_which_it_stopped_does_not_count(place: Path) -> None:
    files = DataFiles(("wal/*.wal",), ("db",))
    files.compare(str(place), place, works=True)
    files.compare(str(place), place, works=True)
    _cut(place)
    files.compare(str(place), place, works=True)
    assert files.compare(str(place), place, works=False) is False


def test_what_was_never_seen_to_work_is_unknown(place: Path) -> None:
    files = DataFiles(("wal/*.wal",), ("db",))
    assert files.compare(str(place), place, works=False) is None
    assert files.compare("none", None, works=True) is None
    assert files.are_present(place) is True
    _empty(place)
    assert files.are_present(place) is False


def test_each_directory_keeps_its_own_newest_log(tmp_path: Path) -> None:
    for name in ("orders-0", "a-topic-with-a-longer-name-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0000.log").write_bytes(b"a" * 64)
    files = DataFiles(("*/*.log",))
    key = str(tmp_path)
    for _ in range(2):
        files.compare(key, tmp_path, works=True)
    shutil.rmtree(tmp_path / "orders-0")
    assert files.compare(key, tmp_path, works=False) is False
