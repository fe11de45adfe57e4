"""What all tests of redaction share."""

from __future__ import annotations

import pytest

from operator_sre.ledger.redaction import Redactor

KEY = bytes(range(32))


@pytest.fixture(scope="session")
def redactor() -> Redactor:
    """A redactor with a fixed key."""
    return Redactor(KEY)
