"""A file that is damaged, cut or somebody else's is refused in one sentence, and left as it is."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from operator_protocols.errors import StoreError
from operator_sre.ledger import KeyFile, verify
from operator_sre.store.backup import fingerprints
from operator_sre.store.schema import LAYOUT
from operator_sre.store.sqlite import SqliteDatabase
from tests.contract.clock import HeldClock
from tests.store.life import Estate, quietly

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of some hundred pages."""
    folder = tmp_path_factory.mktemp("whole")
    estate = Estate(str(folder / "operator.db"), folder, HeldClock())
    estate.live()
    estate.think(*({"number": number, "text": "x" * 500} for number in range(600)))
    return folder


def _copy(whole: Path, tmp_path: Path) -> Estate:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return Estate(str(tmp_path / "operator.db"), tmp_path, HeldClock())


def _digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.iterdir() if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _flip_pages(content: bytearray) -> None:
    middle = len(content) // PAGE // 2 * PAGE
    for at in range(middle, middle + 4 * PAGE):
        content[at] ^= 0xFF


def _flip_header(content: bytearray) -> None:
    content[0:16] = b"SQLite format 4\0"


def _cut(part: float) -> Callable[[bytearray], None]:
    def cut(content: bytearray) -> None:
        del content[int(len(content) * part) :]

    return cut


def _cut_to(size_bytes: int) -> Callable[[bytearray], None]:
    def cut(content: bytearray) -> None:
        del content[size_bytes:]

    return cut


def _foreign(content: bytearray) -> None:
    content[:] = b"%PDF-1.7\n" + bytes(range(256)) * 100


@pytest.mark.parametrize(
    "damage",
    [_flip_pages, _flip_header, _cut(0.5), _cut(0.99), _cut_to(PAGE + 1), _cut_to(50), _foreign],
    ids=["flipped", "header", "half", "tail", "one page", "no page", "foreign"],
)
def test_a_damaged_file_is_refused_untouched(
    whole: Path, tmp_path: Path, damage: Callable[[bytearray], None]
) -> None:
    estate = _copy(whole, tmp_path)
    content = bytearray(Path(estate.place).read_bytes())
    damage(content)
    Path(estate.place).write_bytes(content)
    before = _digests(tmp_path)
    with pytest.raises(StoreError, match="it is unchanged") as caught:
        estate.open()
    assert "\n" not in str(caught.value)
    assert repr(estate.place) in str(caught.value)
    assert _digests(tmp_path) == before


def test_a_damaged_file_with_a_log_beside_it_is_refused_untouched(
    whole: Path, tmp_path: Path
) -> None:
    estate = _copy(whole, tmp_path)
    store = estate.open()
    other = SqliteDatabase(Path(estate.place)).writer()
    other.execute("INSERT INTO leases VALUES (9, 1, 1.0)")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("operator.db", "operator.db-wal"):
        shutil.copy(tmp_path / name, crashed / name)
    other.close()
    store.close()
    content = bytearray((crashed / "operator.db").read_bytes())
    _flip_pages(content)
    (crashed / "operator.db").write_bytes(content)
    before = _digests(crashed)
    with pytest.raises(StoreError, match="damaged"):
        Estate(str(crashed / "operator.db"), crashed, HeldClock()).open()
    after = _digests(crashed)
    assert {name: after[name] for name in before} == before


def test_an_emptied_file_with_a_log_beside_it_is_not_taken_for_a_new_one(
    whole: Path, tmp_path: Path
) -> None:
    estate = _copy(whole, tmp_path)
    Path(estate.place).write_bytes(b"")
    (tmp_path / "operator.db-wal").write_bytes(b"what was acknowledged")
    before = _digests(tmp_path)
    with pytest.raises(StoreError, match="there is a log"):
        estate.open()
    assert _digests(tmp_path) == before


def test_no_flipped_byte_goes_unnoticed(whole: Path, tmp_path: Path) -> None:
    rolls = random.Random(7)
    noticed = 0
    original = Path(whole / "operator.db").read_bytes()
    expected = _prints(Estate(str(whole / "operator.db"), whole, HeldClock()))
    for _ in range(40):
        estate = _copy(whole, tmp_path)
        content = bytearray(original)
        for at in [rolls.randrange(100, len(content)) for _ in range(3)]:
            content[at] ^= 1 << rolls.randrange(8)
        Path(estate.place).write_bytes(content)
        if _is_noticed(estate):
            noticed += 1
        else:
            assert _prints(estate) == expected  # it lay where nothing is
    assert noticed > 20


def _is_noticed(estate: Estate) -> bool:
    try:
        store = estate.open()
        try:
            key = KeyFile(estate.folder / "ledger.key").key
            report = verify(store.entries, store.checkpoints, trusted_key=key)
        finally:
            store.close()
        return not report.whole or not estate.upkeep.check(progress=quietly).sound
    except StoreError:
        return True


def _prints(estate: Estate) -> object:
    database = estate.upkeep.database
    connection = database.session()
    database.snapshot(connection)
    found = fingerprints(database, connection, LAYOUT)
    connection.close()
    projections = {"observations", "conditions", "leases", "quarantine", "sealed"}
    return {name: one for name, one in found.items() if name not in projections}
