"""The table of faults in the docs is that of the plug-ins."""

from __future__ import annotations

from tests.lab.reference import DOCUMENT, FIRST, reference


def test_every_fault_is_in_the_docs() -> None:
    _, _, written = DOCUMENT.read_text().partition(FIRST)
    assert written == reference(), "Write it anew with: python -m tests.lab.reference"
