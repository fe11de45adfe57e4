"""What runs in the process that fills the index: told by its standard input, ended by its end."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

from operator_sre.store.indexing import Indexer
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.textindex import FtsIndex

__all__ = ["fill"]

READ_BYTES = 4096


def fill(path: Path, told: int) -> None:
    """Fill the index of the store at `path` whenever a byte comes in, until there are no more."""
    indexer = Indexer(SqliteDatabase(path), FtsIndex())
    try:
        while os.read(told, READ_BYTES):
            while indexer.advance(steps_max=1):
                if select.select([told], [], [], 0)[0] and not os.read(told, READ_BYTES):
                    return
    finally:
        indexer.close()


if __name__ == "__main__":
    fill(Path(sys.argv[1]), sys.stdin.fileno())
