"""What the start of a store would do: a failover comes first, and no replica loses its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.ratelimiter.starts import (
    FAILOVER_S,
    elect_primary,
    has_data,
    see_starts,
    starts_as,
    with_primary,
)
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
        {"store": silent_s}, [STORE, HEIR], stores, sentinels, {"store": data, "replica": True}, {}
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
    found = see_starts({}, [STORE, HEIR], stores, [], {"store": False, "replica": False}, {})
    assert found["store"]["start_loses_data"] is True
    assert found["replica"]["start_loses_data"] is False
    assert found["store"]["failover_due"] is False


PRIMARY, REPLICA, UNKNOWN = "primary", "replica", ""


@pytest.mark.parametrize(
    ("role", "heir", "heir_role", "sentinel", "second"),
    [
        # The failover is over: it would take writes beside the new primary.
        (PRIMARY, LEADS, PRIMARY, NAMES_HEIR, True),
        (PRIMARY, LEADS, PRIMARY, {}, True),
        (PRIMARY, LEADS, PRIMARY, NAMES_STORE, True),
        (PRIMARY, {}, UNKNOWN, NAMES_HEIR, True),
        (UNKNOWN, LEADS, PRIMARY, NAMES_HEIR, None),
        (REPLICA, LEADS, PRIMARY, NAMES_HEIR, False),
        (REPLICA, {}, UNKNOWN, {}, False),
        # It is still the primary.
        (PRIMARY, FOLLOWS, REPLICA, NAMES_STORE, False),
        (PRIMARY, FOLLOWS, UNKNOWN, {}, False),
        (UNKNOWN, FOLLOWS, UNKNOWN, NAMES_STORE, False),
        (PRIMARY, {}, UNKNOWN, NAMES_STORE, False),
        # Both are down, and only one of them was the primary.
        (PRIMARY, {}, REPLICA, {}, False),
        (PRIMARY, {}, PRIMARY, {}, None),
        (PRIMARY, {}, UNKNOWN, {}, None),
        (UNKNOWN, {}, UNKNOWN, {}, None),
    ],
)
def test_a_start_makes_no_second_writer(
    role: str,
    heir: Mapping[str, Value],
    heir_role: str,
    sentinel: Mapping[str, Value],
    second: bool | None,
) -> None:
    stores = [StoreReport(Seen("store", {})), StoreReport(Seen("replica", heir))]
    sentinels = [StoreReport(Seen("sentinel-1", sentinel))]
    roles = {"store": role, "replica": heir_role}
    found = see_starts({}, [STORE, HEIR], stores, sentinels, {}, roles)
    assert found["store"].get("start_second_writer") is second


def test_a_store_without_others_is_no_second_writer() -> None:
    found = see_starts({}, [STORE], [StoreReport(Seen("store", {}))], [], {}, {})
    assert found["store"]["start_second_writer"] is False


@pytest.mark.parametrize(
    ("named", "elected"),
    [
        (["a:1", "a:1", "b:2"], "a:1"),
        (["a:1", "b:2"], ""),
        (["a:1", "", ""], ""),
        (["a:1", "a:1", ""], "a:1"),
        ([], ""),
    ],
)
def test_most_sentinels_elect_the_primary(named: list[str], elected: str) -> None:
    sentinels = [StoreReport(Seen("s", {"primary": place} if place else {})) for place in named]
    assert elect_primary(sentinels) == elected


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("port 7\n", PRIMARY),
        ("port 7\nreplicaof 127.0.0.1 8\n", REPLICA),
        ("port 7\n  SlaveOf host 8  \n", REPLICA),
        ("port 7\nreplicaof 127.0.0.1 8\nreplicaof no one\n", PRIMARY),
        ("port 7\n# replicaof 127.0.0.1 8\n", PRIMARY),
        ("port 9\nreplica-announce-port 7\nreplicaof a 8\n", REPLICA),
        ("port 9\nreplicaof a 8\n", UNKNOWN),  # the file of another store
        ("port 7\ninclude /etc/more.conf\n", UNKNOWN),  # which may say anything
        ("", UNKNOWN),
    ],
)
def test_its_configuration_file_tells_its_role(text: str, role: str, tmp_path: Path) -> None:
    target = Target("store", "store", port=7, data_dir=str(tmp_path / "volume"))
    assert starts_as(target) == UNKNOWN
    (tmp_path / "store.conf").write_text(text)
    assert starts_as(target) == role
    assert starts_as(replace(target, runs_at="ssh://a")) == UNKNOWN
    (tmp_path / "valkey.conf").write_text(text)
    assert starts_as(target) == UNKNOWN  # two files, and either may be its own


@pytest.mark.parametrize("before", ["", "replicaof old 1\n", "slaveof old 1\nreplicaof no one\n"])
def test_the_last_word_of_the_configuration_is_the_elected_primary(
    before: str, tmp_path: Path
) -> None:
    text = with_primary(f"port 7\n{before}requirepass x\n", "10.0.0.5", 8)
    words = [line for line in text.splitlines() if line]
    assert words == ["port 7", "requirepass x", "replicaof 10.0.0.5 8"]
    (tmp_path / "store.conf").write_text(text)
    assert starts_as(Target("store", "store", port=7, data_dir=str(tmp_path))) == REPLICA


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
