"""Intact data files differ from files that were emptied, truncated or restored from a copy."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.kit.datafiles import KEPT_EVERY, DataFiles


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


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in which what was seen is kept, until the test is over."""
    DataFiles.keep_in(tmp_path / "kept")
    yield tmp_path / "kept"
    DataFiles.keep_in(None)


def _restart(monkeypatch: pytest.MonkeyPatch) -> DataFiles:
    """What another process knows, which has seen nothing itself."""
    for name in ("_marks", "_latest", "_written"):
        monkeypatch.setattr(DataFiles, name, {})
    return DataFiles(["wal/*.wal"], ["db"])


@pytest.mark.parametrize(
    ("damage", "intact"),
    [(_empty, False), (_cut, False), (_restore, False), (_write_on, True), (_purge, True)],
)
def test_what_was_seen_outlives_the_process(
    place: Path,
    memory: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
    intact: bool,
) -> None:
    files = _restart(monkeypatch)
    for _ in range(2):
        files.compare("kept", place, works=True)
    damage(place)
    assert _restart(monkeypatch).compare("kept", place, works=False) is intact
    assert _restart(monkeypatch).compare("another", place, works=False) is None
    assert [oct(memory.stat().st_mode)[-3:], len(list(memory.iterdir()))] == ["700", 1]


@given(
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=60),
    left=st.integers(0, 200),
    other=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_memory_calls_nothing_intact_that_it_did_not_see_so_long(
    sizes: list[int],
    left: int,
    other: bool,
) -> None:
    """What was written down may be some checks old; what is shorter than that is never intact."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        place, log = Path(name) / "data", Path(name) / "data" / "wal" / "1.wal"
        log.parent.mkdir(parents=True)
        log.write_bytes(b"")
        patch.setattr(DataFiles, "_folder", Path(name) / "kept")
        files, seen = _restart(patch), []
        for size in (0, *sizes):
            with log.open("ab") as file:
                file.write(b"x" * size)
            seen.append(log.stat().st_size)
            files.compare("kept", place, works=True)
        if other:
            shutil.copyfile(log, log.with_suffix(".copy"))
            log.with_suffix(".copy").replace(log)
        os.truncate(log, left)
        found = _restart(patch).compare("kept", place, works=False)
        assert found is False or (not other and left >= seen[max(0, len(seen) - 2 - KEPT_EVERY)])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"name": "kept"}', '{"name": "x", "logs": {}, "others": {}}']
)
def test_a_damaged_memory_knows_nothing(
    place: Path, memory: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    files = _restart(monkeypatch)
    for _ in range(2):
        files.compare("kept", place, works=True)
    (file,) = memory.iterdir()
    file.write_text(text)
    assert _restart(monkeypatch).compare("kept", place, works=False) is None


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
