"""A policy that changes while an operator runs: soon in force, or not at all."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from operator_protocols.errors import ConfigError
from operator_sre.gate.policy import built_in
from operator_sre.gate.policy.reload import LOOK_S, SETTLE_S, PolicyFile
from tests.gate.policy.writing import RULE, text_of


class _Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


ONE = text_of(modes={"shop": "approve"})
TWO = text_of(modes={"shop": "execute", "bank": "observe"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(ONE)
    return file


@pytest.fixture
def time() -> _Time:
    return _Time()


def _later(policy: PolicyFile, time: _Time) -> None:
    time.now += LOOK_S
    policy.book()
    time.now += SETTLE_S
    policy.book()


def test_a_change_is_in_force_after_two_looks(file: Path, time: _Time) -> None:
    policy = PolicyFile([file], monotonic=time)
    assert policy.book().modes == {"shop": "approve"}
    file.write_text(TWO)
    assert policy.book().modes == {"shop": "approve"}, "looked at once a second"
    time.now += LOOK_S
    assert policy.book().modes == {"shop": "approve"}, "may still be written"
    time.now += SETTLE_S
    assert set(policy.book().modes) == {"shop", "bank"}
    assert (policy.file, policy.trouble) == (file, "")


def test_a_file_that_goes_on_changing_is_left_until_it_rests(file: Path, time: _Time) -> None:
    policy = PolicyFile([file], monotonic=time)
    time.now += LOOK_S
    for size in range(10):
        file.write_text(TWO + "#" * size)
        assert policy.book().modes == {"shop": "approve"}
        time.now += SETTLE_S
    policy.book()
    time.now += SETTLE_S
    assert "bank" in policy.book().modes


def test_a_broken_policy_never_counts(
    file: Path, time: _Time, caplog: pytest.LogCaptureFixture
) -> None:
    policy = PolicyFile([file], monotonic=time)
    good = policy.book()
    file.write_text("version: 1\nmodes: {shop: all}\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            _later(policy, time)
    assert policy.book() is good
    assert policy.trouble.startswith(f"{file}:2:15: ")
    assert [record.message for record in caplog.records] == [
        f"the old policy stays in force: {policy.trouble}"
    ]
    file.write_text(TWO)
    _later(policy, time)
    assert "bank" in policy.book().modes
    assert policy.trouble == ""


def test_an_example_that_does_not_hold_is_a_broken_policy(file: Path, time: _Time) -> None:
    policy = PolicyFile([file], monotonic=time)
    file.write_text(text_of(safe=[{**RULE, "match": ["jobctl drain"]}]))
    _later(policy, time)
    assert "does not match its example" in policy.trouble


def test_a_policy_that_is_gone_stays_in_force(file: Path, time: _Time) -> None:
    policy = PolicyFile([file], monotonic=time)
    file.unlink()
    _later(policy, time)
    assert policy.book().modes == {"shop": "approve"}
    assert "gone" in policy.trouble
    file.write_text(ONE)
    _later(policy, time)
    assert policy.trouble == ""


def test_a_replaced_file_of_the_same_size_and_time_is_seen(file: Path, time: _Time) -> None:
    policy = PolicyFile([file], monotonic=time)
    before = file.stat()
    other = file.with_name("new.yaml")
    other.write_text(ONE.replace("approve", "observe"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert file.stat().st_size == before.st_size
    _later(policy, time)
    assert policy.book().modes == {"shop": "observe"}


def test_the_first_file_that_exists_counts(tmp_path: Path, time: _Time) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    policy = PolicyFile([first, second], monotonic=time)
    assert policy.book() is built_in()
    assert not policy.file
    second.write_text(ONE)
    _later(policy, time)
    assert policy.file == second
    first.write_text(TWO)
    _later(policy, time)
    assert policy.file == first


def test_the_first_load_fails_when_the_file_is_wrong_or_missing(file: Path, time: _Time) -> None:
    file.write_text("version: 7\n")
    with pytest.raises(ConfigError, match=r":1:10: "):
        PolicyFile([file], monotonic=time)
    file.unlink()
    assert PolicyFile([file], monotonic=time).book() is built_in()
    with pytest.raises(ConfigError, match=r":1:1: There is no such policy"):
        PolicyFile([file], monotonic=time, required=True)


def test_readers_only_ever_see_whole_policies(file: Path) -> None:
    """A file that is replaced again and again, and threads that read: each sees one or other."""
    step = _Time()
    lock = threading.Lock()

    def monotonic() -> float:
        with lock:
            step.now += SETTLE_S
            return step.now

    policy = PolicyFile([file], monotonic=monotonic)
    whole = {frozenset({"shop"}), frozenset({"shop", "bank"})}
    seen: set[frozenset[str]] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(frozenset(policy.book().modes))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(60):
        text = (ONE, TWO)[turn % 2]
        other = file.with_name(f"{turn}.yaml")
        other.write_text(text)
        other.replace(file)
    done.set()
    for reader in readers:
        reader.join()
    assert seen <= whole
