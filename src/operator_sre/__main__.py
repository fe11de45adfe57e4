"""Where the command `operator` begins: `python -m operator_sre` is the same."""

from __future__ import annotations

import signal
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Load the command line and run it."""
    # Who presses Ctrl-C while it still loads wants its end, and no traceback.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from operator_sre.faces.cli.main import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
