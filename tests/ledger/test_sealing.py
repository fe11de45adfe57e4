"""What is sealed opens with its key and its label, and with nothing else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_sre.ledger.keys import Vault


def test_sealed_bytes_open_again_and_show_nothing(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault.key")
    sealed = vault.seal(b"password=hunter2", label="7")
    assert b"hunter2" not in sealed
    assert vault.open(sealed, label="7") == b"password=hunter2"
    assert stat.S_IMODE((tmp_path / "vault.key").stat().st_mode) == 0o600


def test_the_same_bytes_are_sealed_differently_each_time(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault.key")
    assert vault.seal(b"x", label="7") != vault.seal(b"x", label="7")


def test_another_label_or_key_opens_nothing(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault.key")
    sealed = vault.seal(b"x", label="7")
    assert vault.open(sealed, label="8") is None
    assert Vault(tmp_path / "other.key").open(sealed, label="7") is None


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return Vault(tmp_path_factory.mktemp("home") / "vault.key")


@given(hostile=st.binary(max_size=60))
def test_bytes_that_were_never_sealed_open_nothing(vault: Vault, hostile: bytes) -> None:
    assert vault.open(hostile, label="7") is None
