"""The record by its commands: verify, anchor, export, tail and search, on a real ledger."""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.clock import SystemClock
from operator_sre.ledger import KeyFile
from operator_sre.store import open_store

OPERATOR = str(Path(sys.executable).with_name("operator"))
ENTRIES = 12


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a signed ledger of twelve entries."""
    folder = tmp_path / "home"
    key = KeyFile(folder / "ledger.key")
    store = open_store(folder / "operator.db", clock=SystemClock(), signer=key, checkpoint_every=5)

    async def fill() -> None:
        for number in range(1, ENTRIES + 1):
            run = "run-a" if number % 2 else "run-b"
            draft = Draft(Kind.REASONING, {"reasoning": f"thought {number}", "calls": []}, run=run)
            await store.journal.append(draft)

    asyncio.run(fill())
    store.close()
    return folder


def _operator(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [OPERATOR, *words, "--home", str(home)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def _edit(home: Path, seq: int) -> None:
    connection = sqlite3.connect(home / "operator.db", isolation_level=None)
    connection.execute("UPDATE entries SET body = replace(body, 't', 'T') WHERE seq = ?", (seq,))
    connection.close()


def test_a_whole_ledger_verifies(home: Path) -> None:
    done = _operator(home, "audit", "verify")
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 entries, 3 checkpoints signed" in done.stdout


def test_damage_is_named_recorded_and_stays_named(home: Path) -> None:
    _edit(home, 7)
    for _ in range(2):
        done = _operator(home, "audit", "verify", "--json")
        report = json.loads(done.stdout)["report"]
        assert done.returncode == 1
        assert [(one["seq"], one["kind"]) for one in report["damages"]] == [(7, "edited")]
    newest = json.loads(_operator(home, "audit", "tail", "-n", "1", "--json").stdout)["entry"]
    assert (newest["seq"], newest["kind"]) == (ENTRIES + 1, "segment_started")


def test_looking_may_leave_the_ledger_as_it_is(home: Path) -> None:
    _edit(home, 7)
    assert _operator(home, "audit", "verify", "--no-record").returncode == 1
    newest = json.loads(_operator(home, "audit", "tail", "-n", "1", "--json").stdout)["entry"]
    assert newest["seq"] == ENTRIES


def test_an_anchor_finds_a_tail_that_was_cut_with_its_checkpoints(
    home: Path, tmp_path: Path
) -> None:
    anchors = tmp_path / "anchors"
    printed = _operator(home, "audit", "anchor", "--file", str(anchors))
    assert json.loads(printed.stdout)["seq"] == ENTRIES
    assert _operator(home, "audit", "verify", "--anchors", str(anchors)).returncode == 0
    connection = sqlite3.connect(home / "operator.db", isolation_level=None)
    connection.execute("DELETE FROM entries WHERE seq > 4")
    connection.execute("DELETE FROM checkpoints")
    connection.close()
    assert _operator(home, "audit", "verify").returncode == 0
    done = _operator(home, "audit", "verify", "--anchors", str(anchors), "--no-record")
    assert done.returncode == 1
    assert "DAMAGED at entry 5: tail_cut" in done.stdout


class _Keeper(BaseHTTPRequestHandler):
    kept: list[bytes]

    def do_POST(self) -> None:
        """Keep what is sent."""
        self.kept.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def keeper() -> Iterator[tuple[str, list[bytes]]]:
    kept: list[bytes] = []
    server = HTTPServer(("127.0.0.1", 0), type("Keeper", (_Keeper,), {"kept": kept}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", kept
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_anchor_can_be_sent_away(home: Path, keeper: tuple[str, list[bytes]]) -> None:
    url, kept = keeper
    done = _operator(home, "audit", "anchor", "--url", url)
    assert done.returncode == 0
    assert [json.loads(one) for one in kept] == [json.loads(done.stdout)]


def test_an_anchor_that_nobody_takes_is_a_failure(home: Path) -> None:
    done = _operator(home, "audit", "anchor", "--url", "http://127.0.0.1:9/")
    assert done.returncode == 1
    assert done.stderr.startswith("operator: The anchor could not be sent")


def test_a_bundle_verifies_on_another_machine(home: Path, tmp_path: Path) -> None:
    bundle = str(tmp_path / "bundle.zip")
    assert _operator(home, "audit", "export", bundle, "--run", "run-a").returncode == 0
    elsewhere = tmp_path / "elsewhere"
    done = _operator(elsewhere, "audit", "verify", "--bundle", bundle)
    assert done.returncode == 0
    assert not elsewhere.exists()
    wrong = _operator(elsewhere, "audit", "verify", "--bundle", bundle, "--key", "00" * 32)
    assert wrong.returncode == 1
    assert "wrong_key" in wrong.stdout


@pytest.mark.parametrize("style", ["jsonl", "csv", "html"])
def test_entries_are_exported_for_people(home: Path, tmp_path: Path, style: str) -> None:
    shown = _operator(home, "audit", "export", "--format", style, "--run", "run-b").stdout
    assert ("thought 2" in shown, "thought 3" in shown) == (True, False)
    file = tmp_path / "export"
    assert _operator(home, "audit", "export", str(file), "--format", style).returncode == 0
    text = file.read_text()
    if style == "csv":
        assert len(list(csv.reader(text.splitlines()))) == ENTRIES + 1
    assert "thought 12" in text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["export"], 2),
        (["export", "-"], 2),
        (["export", "--format", "pdf"], 2),
        (["export", "/dev/null/x", "--format", "csv"], 1),
        (["export", "/dev/null/x"], 1),
        (["verify", "--bundle", "/dev/null"], 2),
        (["verify", "--anchors", "/nowhere"], 2),
        (["search", ""], 2),
    ],
)
def test_nonsense_gets_one_sentence(home: Path, words: list[str], code: int) -> None:
    done = _operator(home, "audit", *words)
    assert done.returncode == code
    assert done.stderr.startswith("operator: ")
    assert done.stderr.count("\n") == 1


def test_an_empty_ledger_has_no_head_to_anchor(tmp_path: Path) -> None:
    done = _operator(tmp_path / "empty", "audit", "anchor")
    assert (done.returncode, "empty" in done.stderr) == (2, True)


def test_a_text_is_found_newest_first(home: Path) -> None:
    found = json.loads(_operator(home, "audit", "search", "thought", "--json").stdout)["entries"]
    assert [entry["seq"] for entry in found] == list(range(ENTRIES, 0, -1))
    assert "thought 3" in _operator(home, "audit", "search", "thought 3").stdout
    assert _operator(home, "audit", "search", "nonsense").stdout == "Nothing was found.\n"


def test_the_tail_goes_on_as_entries_come(home: Path) -> None:
    argv = [OPERATOR, "audit", "tail", "-n", "1", "-f", "--json", "--home", str(home)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as following:
        try:
            store = open_store(home / "operator.db", clock=SystemClock())
            assert following.stdout is not None
            assert json.loads(following.stdout.readline())["entry"]["seq"] == ENTRIES
            for number in range(3):
                draft = Draft(Kind.REASONING, {"number": number})
                written = asyncio.run(store.journal.append(draft))
                entry = json.loads(following.stdout.readline())["entry"]
                assert (entry["seq"], entry["payload"]) == (written.seq, {"number": number})
            store.close()
        finally:
            following.terminate()
        assert following.wait(10) == 143
