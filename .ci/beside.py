"""Run a command while another one runs beside it, so that a second core has something to do.

    python .ci/beside.py mypy -- pytest tests      types are checked while the tests run

The second has the terminal. What the first says comes at the end, and at once when it has failed.
Both are run to their end, so that one run tells everything that is wrong.
"""

import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import BinaryIO

__all__ = ["main"]

_INTERRUPTED = 130


def _show(said: BinaryIO) -> None:
    said.seek(0)
    sys.stdout.buffer.write(said.read())
    sys.stdout.flush()


def _watch(first: "subprocess.Popen[bytes]", said: BinaryIO) -> None:
    """Tell of a failure while there is still time to stop the other one."""
    if first.wait() != 0:
        sys.stdout.write("\n")
        _show(said)


def main(words: list[str]) -> int:
    """Run both; the exit code is that of the second, or else that of the first."""
    where = words.index("--")
    with tempfile.TemporaryFile() as said:
        first = subprocess.Popen(words[:where], stdout=said, stderr=subprocess.STDOUT)
        watching = threading.Thread(target=_watch, args=(first, said))
        watching.start()
        try:
            second = subprocess.Popen(words[where + 1 :])
            code = second.wait()
            watching.join()
        except KeyboardInterrupt:  # both have been told by the terminal
            with suppress(KeyboardInterrupt):
                second.wait()
            first.kill()
            watching.join()
            return _INTERRUPTED
        _show(said)
    return code or first.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
