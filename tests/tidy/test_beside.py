"""Types are checked while the tests run: nothing of either is lost."""

import os
import subprocess
import sys
from pathlib import Path

from tests.every import every
from tests.tidy.sources import ROOT

_ENDS = "import sys; print(sys.argv[1]); sys.exit(int(sys.argv[2]))"
_WRITES = "import sys; open(sys.argv[1], 'w').write('met')"
_READS = "import sys; print(open(sys.argv[1]).read())"


def _beside(first: list[str], second: list[str]) -> subprocess.CompletedProcess[str]:
    python = [sys.executable, "-I", "-S"]
    words = [*python, "-c", *first, "--", *python, "-c", *second]
    return subprocess.run(
        [*python, str(ROOT / ".ci" / "beside.py"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@every(("types", "tests", "code"), [(0, 0, 0), (1, 0, 1), (0, 5, 5), (1, 5, 5)])
def test_both_come_to_their_end_and_neither_fails_unnoticed(
    types: int, tests: int, code: int
) -> None:
    done = _beside([_ENDS, "types", str(types)], [_ENDS, "tests", str(tests)])
    assert done.returncode == code, done.stderr
    assert "tests" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "types"


def test_they_run_at_the_same_time(tmp_path: Path) -> None:
    """One waits for the other: one after the other they would never end."""
    os.mkfifo(tmp_path / "pipe")
    pipe = str(tmp_path / "pipe")
    assert _beside([_WRITES, pipe], [_READS, pipe]).stdout.splitlines() == ["met"]
    assert _beside([_READS, pipe], [_WRITES, pipe]).stdout.splitlines() == ["met"]
