"""Stores of released layouts, as they were when a version was made: small, and never changed.

python -m tests.store.layouts        writes the store of this layout, if there is none
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

from operator_sre.store.schema import SCHEMA_VERSION
from tests.contract.clock import HeldClock
from tests.store.life import Estate, quietly

__all__ = ["FOLDER", "main", "unpack"]

FOLDER = Path(__file__).parent / "layouts_kept"


def unpack(version: int, folder: Path) -> Path:
    """The SQLite store of a released version, in a folder where it may be changed."""
    place = folder / f"layout-{version}.db"
    place.write_bytes(gzip.decompress((FOLDER / f"{version}.db.gz").read_bytes()))
    return place


def main() -> int:
    """Write the store of the current layout, unless it is kept already."""
    kept = FOLDER / f"{SCHEMA_VERSION}.db.gz"
    if kept.exists():
        sys.stdout.write(f"{kept} is kept; a released layout never changes\n")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        estate = Estate(str(folder / "operator.db"), folder, HeldClock())
        estate.live()
        saved = estate.upkeep.backup(folder / "backup.db", force=False, progress=quietly)
        FOLDER.mkdir(exist_ok=True)
        kept.write_bytes(gzip.compress(saved.path.read_bytes(), mtime=0))
    sys.stdout.write(f"wrote {kept}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
