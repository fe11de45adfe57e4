"""Secrets in files: read when asked for, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.errors import ObservationError
from operator_sre.app.secret_store import SECRET_BYTES_MAX, read_secret


def test_a_secret_is_the_text_of_its_file_without_the_line_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(" open sesame \r\n", encoding="utf-8")
    assert read_secret(str(file)) == " open sesame "


def test_a_secret_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one", encoding="utf-8")
    assert read_secret(str(file)) == "one"
    file.write_text("two", encoding="utf-8")
    assert read_secret(str(file)) == "two"


@pytest.mark.parametrize("content", [b"\xff\xfe secret", b"x" * (SECRET_BYTES_MAX + 1)])
def test_what_is_no_secret_is_refused_without_a_word_of_it(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(ObservationError, match="password") as refused:
        read_secret(str(file))
    assert "xxx" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="nowhere"):
        read_secret(str(tmp_path / "nowhere"))
