"""eval.db is made once, however many come at the same moment."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from operator_evals.database import Database, open_database
from operator_protocols.errors import StoreError

# Each waits for the word to go, so that all of them meet a file that is not there yet.
_OPEN = """
import sys
from pathlib import Path
from operator_evals.database import open_database
print("ready", flush=True)
for name in sys.stdin:
    with open_database(Path(name.strip())) as facts:
        print(len(facts.campaigns()), flush=True)
"""
PROCESSES = 3
FILES = 40


def test_processes_that_meet_a_new_database_all_open_it(tmp_path: Path) -> None:
    command = (sys.executable, "-P", "-c", _OPEN)
    processes = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for one in processes:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    names = "".join(f"{tmp_path / f'{number}.db'}\n" for number in range(FILES))
    for one in processes:
        assert one.stdin is not None
        one.stdin.write(names)
        one.stdin.flush()
    for one in processes:
        out, problem = one.communicate(timeout=120)
        assert (one.returncode, problem) == (0, "")
        assert out.split() == ["0"] * FILES
    for number in range(FILES):
        connection = sqlite3.connect(tmp_path / f"{number}.db")
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'")
        assert tables.fetchone() == (2,)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        connection.close()


def test_who_comes_while_it_is_made_waits_and_finds_it_made(tmp_path: Path) -> None:
    path = tmp_path / "eval.db"
    with open_database(path) as facts:
        assert isinstance(facts, Database)
    with open_database(path) as first, open_database(path) as second:
        assert first.campaigns() == second.campaigns() == []


def test_what_holds_no_trials_or_newer_ones_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("Once upon a time, and it was long ago, there was no database at all.\n" * 9)
    with pytest.raises(StoreError, match="does not hold trials"), open_database(path):
        pass
    newer = tmp_path / "newer.db"
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="newer version"), open_database(newer):
        pass
