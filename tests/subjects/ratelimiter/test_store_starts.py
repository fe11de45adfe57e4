"""What the start of a store would do: a failover comes first, and no replica loses its data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.ratelimiter.starts import FAILOVER_S, has_data, see_starts
from operator_sre.subjects.ratelimiter.stores import StoreReport

STORE, HEIR = Target("store", "store", port=1), Target("replica", "replica", port=2)
FOLLOWS: Mapping[str, Value] = {"role": "replica", "primary": "127.0.0.1:1"}
LEADS: Mapping[str, Value] = {"role": "primary"}
NAMES_STORE: Mapping[str, Value] = {"primary": "127.0.0.1:1", "quorum_error": ""}
NAMES_HEIR: Mapping[str, Value] = {"primary": "127.0.0.1:2", "quorum_error": ""}
NO_QUORUM: Mapping[str, Value] = {"primary": "127.0.0.1:1", "quorum_error": "NOQUORUM"}


def _start(
    heir: Mapping[str, Value],
    sentinel: Mapping[str, Value],
    *,
    data: bool | None,
    silent_s: float = 3.0,
) -> dict[str, Value]:
    stores = [StoreReport(Seen("store", {})), StoreReport(Seen("replica", heir))]
    sentinels = [StoreReport(Seen("sentinel-1", sentinel))]
    found = see_starts(
        {"store": silent_s}, [STORE, HEIR], stores, sentinels, {"store": data, "replica": True}
    )
    return found["store"]


@pytest.mark.parametrize(
    ("heir", "sentinel", "data", "due", "loses"),
    [
        (FOLLOWS, NAMES_STORE, True, True, False),
        (FOLLOWS, NAMES_STORE, False, True, True),
        (FOLLOWS, NAMES_STORE, None, True, None),
        (FOLLOWS, NO_QUORUM, False, False, True),
        (FOLLOWS, {}, False, False, True),
        (FOLLOWS, {}, None, False, None),
        # The failover is over: it comes back as a replica, whatever it holds.
        (LEADS, NAMES_HEIR, False, False, False),
        # No other store can take over.
        ({}, NAMES_STORE, False, False, True),
        # Nobody says what it was.
        ({}, {}, False, False, None),
        ({}, {}, True, False, False),
    ],
)
def test_what_a_start_does(
    heir: Mapping[str, Value],
    sentinel: Mapping[str, Value],
    data: bool | None,
    due: bool,
    loses: bool | None,
) -> None:
    found = _start(heir, sentinel, data=data)
    assert (found["failover_due"], found.get("start_loses_data")) == (due, loses)


def test_a_failover_that_does_not_come_is_not_awaited_forever() -> None:
    found = _start(FOLLOWS, NAMES_STORE, data=True, silent_s=FAILOVER_S)
    assert found["failover_due"] is False


def test_a_store_that_answers_keeps_its_role() -> None:
    stores = [StoreReport(Seen("store", LEADS)), StoreReport(Seen("replica", FOLLOWS))]
    found = see_starts({}, [STORE, HEIR], stores, [], {"store": False, "replica": False})
    assert found["store"]["start_loses_data"] is True
    assert found["replica"]["start_loses_data"] is False
    assert found["store"]["failover_due"] is False


def test_data_are_files_that_are_not_empty(tmp_path: Path) -> None:
    def held() -> bool | None:
        return has_data(Target("store", "store", data_dir=str(tmp_path)))

    assert held() is False
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.manifest").write_text("file appendonly.aof.1.base.rdb")
    (folder / "appendonly.aof.1.incr.aof").touch()
    assert held() is False
    (folder / "appendonly.aof.1.incr.aof").write_text("*2")
    assert held() is True
    assert has_data(Target("store", "store")) is None
    assert has_data(Target("store", "store", data_dir=str(tmp_path), runs_at="ssh://a")) is None
