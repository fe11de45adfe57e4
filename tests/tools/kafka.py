"""Fetch the pinned files of the Kafka rig into its cache: `python -m tests.tools.kafka`.

Without Java or a Maven repository nothing is fetched, and the tests of real brokers are skipped.
"""

from __future__ import annotations

import sys

from operator_lab.artifacts import fetch_artifacts
from operator_protocols.errors import OperatorError
from operator_sre.subjects.kafka.rig import artifacts, jmx_agent, rig

__all__ = ["main"]


def print_line(line: str) -> None:
    """Tell how far it is."""
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Fetch what is missing."""
    try:
        rig()
        fetch_artifacts((*artifacts(), jmx_agent()), print_line)
    except OperatorError as problem:
        sys.stderr.write(f"{problem} Tests of real Kafka brokers are skipped.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
