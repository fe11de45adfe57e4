"""Text as it arrives, the command `operator redact`, and the key."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from operator_protocols.errors import StoreError
from operator_sre.app.redaction import Tally, open_redactor, redact_stream
from operator_sre.config import load_config
from operator_sre.faces.cli.redact import redact
from operator_sre.ledger.keys import load_key
from operator_sre.ledger.redaction import Redactor, Stream

PEM = "\n".join(["-----BEGIN PRIVATE KEY-----", *["QUJDREVG" * 8] * 5, "-----END PRIVATE KEY-----"])
_COMMAND = "import sys; from operator_sre.faces.cli import main; main(sys.argv[1:])"


def _lines(redactor: Redactor, text: str) -> list[str]:
    stream = Stream(redactor)
    return [*map(stream.feed, text.splitlines(keepends=True)), stream.end()]


def test_a_line_comes_out_as_soon_as_it_is_whole(redactor: Redactor) -> None:
    stream = Stream(redactor)
    assert stream.feed("password=hun") == ""
    assert stream.feed("ter2\nnext") == redactor.text("password=hunter2\n")
    assert stream.end() == "next"
    assert stream.counts == {"password": 1}


@pytest.mark.parametrize(
    "text",
    [
        f"before\n{PEM}\nafter\n",
        "apiVersion: v1\ndata:\n  a: YWJjZGVm\nkind: Secret\nother: 1\n",
        "kind: Secret\nmetadata: {}\ndata:\n  a: YWJjZGVm\n  b: YWJjZGVm\nother: 1\n",
        "user,password\nbob,sunshine\neve,moonlight\n\ndone\n",
        "- name: DB_PASSWORD\n  value: sunshine\n- name: A\n  value: b\n",
        "password: |\n  one 1\n  two 2\nport: 1\n",
    ],
)
def test_what_lies_across_lines_is_found_line_by_line(redactor: Redactor, text: str) -> None:
    parts = _lines(redactor, text)
    assert "".join(parts) == redactor.text(text) != text
    assert parts[-1] == ""


def test_a_key_without_an_end_holds_up_nothing_for_ever(redactor: Redactor) -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + "just a log line\n" * 10_000
    parts = _lines(redactor, text)
    assert "".join(parts) == text
    assert sum(bool(part) for part in parts) > 1000


def test_a_line_without_end_is_cut(redactor: Redactor) -> None:
    stream = Stream(redactor)
    out = [stream.feed("word " * 20_000) for _ in range(30)]
    assert sum(map(bool, out)) >= 2
    assert "".join(out) + stream.end() == "word " * 600_000


def test_bytes_that_are_no_text_come_out_as_they_went_in(tmp_path: Path) -> None:
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    data = bytes(range(256)) * 3 + b"\npassword=hunter2\xff\n\xc3"
    out: list[bytes] = []
    chunks = [data[at : at + 7] for at in range(0, len(data), 7)]
    tally = redact_stream(config, chunks, out.append)
    first, second, last = b"".join(out).rsplit(b"\n", 2)
    assert first == bytes(range(256)) * 3
    assert second.startswith(b"password=[REDACTED:password:")
    assert last == b"\xc3"
    assert tally == Tally(lines=5, bytes=len(data), secrets=1, kinds={"password": 1})


def test_the_same_home_makes_the_same_hashes(tmp_path: Path) -> None:
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    first, second = open_redactor(config), open_redactor(config)
    assert first.text("password=hunter2") == second.text("password=hunter2")


def _run(home: Path, *arguments: str, text: bytes) -> bytes:
    return subprocess.run(
        [sys.executable, "-c", _COMMAND, *arguments, "--home", str(home)],
        input=text,
        capture_output=True,
        check=True,
    ).stdout


def test_the_command_passes_text_on_and_counts(tmp_path: Path) -> None:
    text = f"password=hunter2 ok\n{PEM}\nplain\n".encode()
    out = _run(tmp_path, "redact", text=text).decode()
    assert out == open_redactor(
        load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    ).text(text.decode())
    counted = json.loads(_run(tmp_path, "redact", "--json", text=text))
    assert counted["kinds"] == {"password": 1, "private_key": 1}
    assert (counted["secrets"], counted["lines"], counted["bytes"]) == (2, 9, len(text))
    assert redact.__doc__


def test_the_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "home" / "redaction.key"
    key = load_key(path)
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_key(path) == key
    assert [one.name for one in path.parent.iterdir()] == ["redaction.key"]


def test_of_many_who_make_the_key_at_once_one_wins_for_all(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / str(number) / "redaction.key"
        with ThreadPoolExecutor(8) as pool:
            keys = set(pool.map(load_key, [path] * 8))
        assert len(keys) == 1


def test_a_damaged_key_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "redaction.key"
    path.write_bytes(b"short")
    with pytest.raises(StoreError, match="5 bytes instead of 32"):
        load_key(path)
    assert path.read_bytes() == b"short"


def test_a_key_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be read or made"):
        load_key(tmp_path / "file" / "redaction.key")


def test_importing_loads_no_matcher() -> None:
    code = "import sys, operator_sre.ledger.redaction, operator_sre.faces.cli.redact\n"
    code += "sys.exit('re2' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], check=False, env=environment)
    assert done.returncode == 0
