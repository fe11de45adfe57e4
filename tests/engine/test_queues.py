"""What leads to the database of DBOS: nothing of it is left open, whoever ends last."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_sre.engine.queues import Lane, Membership, must_be_installed
from tests.contract.postgres import database_in


def test_a_connection_that_is_given_back_after_the_end_is_closed(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    must_be_installed()
    with database_in("postgresql", tmp_path, pytestconfig) as where:
        membership = Membership(where, "operator-test", "1", "executor", threads_max=1)
        membership.open({}, [Lane("lane", 1, 0.5)], listens=False)
        late = membership.connections.connect()
        driven = late.connection.dbapi_connection
        assert driven is not None
        membership.close()
        late.close()
        assert driven.closed
