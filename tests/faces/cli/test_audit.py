"""The record by its commands: verify, anchor, export, tail and search, on a real ledger."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.clock import SystemClock
from operator_sre.ledger import KeyFile
from operator_sre.store import open_store
from tests.e2e.home import OPERATOR, run_operator
from tests.e2e.warm import Done, Warm

ENTRIES = 12
Operator = Callable[..., Done]


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


@pytest.fixture
def operator(warm: Warm, tmp_path: Path) -> Operator:
    """The command on a home, to its end."""

    def run(home: Path, *words: str) -> Done:
        line = (*words, "--home", str(home))
        return warm.run(*line, cwd=tmp_path, environ=os.environ)

    return run


def _edit(home: Path, seq: int) -> None:
    connection = sqlite3.connect(home / "operator.db", isolation_level=None)
    connection.execute("UPDATE entries SET body = replace(body, 't', 'T') WHERE seq = ?", (seq,))
    connection.close()


def test_a_whole_ledger_verifies(home: Path) -> None:
    done = run_operator("audit", "verify", "--home", str(home), cwd=home)
    assert (done.code, done.err) == (0, "")
    assert "12 entries, 3 checkpoints signed" in done.out


def test_damage_is_named_recorded_and_stays_named(operator: Operator, home: Path) -> None:
    _edit(home, 7)
    for _ in range(2):
        done = operator(home, "audit", "verify", "--json")
        report = json.loads(done.out)["report"]
        assert done.code == 1
        assert [(one["seq"], one["kind"]) for one in report["damages"]] == [(7, "edited")]
    newest = json.loads(operator(home, "audit", "tail", "-n", "1", "--json").out)["entry"]
    assert (newest["seq"], newest["kind"]) == (ENTRIES + 1, "segment_started")


def test_looking_may_leave_the_ledger_as_it_is(operator: Operator, home: Path) -> None:
    _edit(home, 7)
    assert operator(home, "audit", "verify", "--no-record").code == 1
    newest = json.loads(operator(home, "audit", "tail", "-n", "1", "--json").out)["entry"]
    assert newest["seq"] == ENTRIES


def test_an_anchor_finds_a_tail_that_was_cut_with_its_checkpoints(
    operator: Operator, home: Path, tmp_path: Path
) -> None:
    anchors = tmp_path / "anchors"
    printed = operator(home, "audit", "anchor", "--file", str(anchors))
    assert json.loads(printed.out)["seq"] == ENTRIES
    assert operator(home, "audit", "verify", "--anchors", str(anchors)).code == 0
    connection = sqlite3.connect(home / "operator.db", isolation_level=None)
    connection.execute("DELETE FROM entries WHERE seq > 4")
    connection.execute("DELETE FROM checkpoints")
    connection.close()
    assert operator(home, "audit", "verify").code == 0
    done = operator(home, "audit", "verify", "--anchors", str(anchors), "--no-record")
    assert done.code == 1
    assert "DAMAGED at entry 5: tail_cut" in done.out


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


def test_an_anchor_can_be_sent_away(
    operator: Operator, home: Path, keeper: tuple[str, list[bytes]]
) -> None:
    url, kept = keeper
    done = operator(home, "audit", "anchor", "--url", url)
    assert done.code == 0
    assert [json.loads(one) for one in kept] == [json.loads(done.out)]


def test_an_anchor_that_nobody_takes_is_a_failure(operator: Operator, home: Path) -> None:
    done = operator(home, "audit", "anchor", "--url", "http://127.0.0.1:9/")
    assert done.code == 1
    assert done.err.startswith("operator: The anchor could not be sent")


def test_a_bundle_verifies_on_another_machine(
    operator: Operator, home: Path, tmp_path: Path
) -> None:
    bundle = str(tmp_path / "bundle.zip")
    assert operator(home, "audit", "export", bundle, "--run", "run-a").code == 0
    elsewhere = tmp_path / "elsewhere"
    done = operator(elsewhere, "audit", "verify", "--bundle", bundle)
    assert done.code == 0
    assert not elsewhere.exists()
    wrong = operator(elsewhere, "audit", "verify", "--bundle", bundle, "--key", "00" * 32)
    assert wrong.code == 1
    assert "wrong_key" in wrong.out


@pytest.mark.parametrize("style", ["jsonl", "csv", "html"])
def test_entries_are_exported_for_people(
    operator: Operator, home: Path, tmp_path: Path, style: str
) -> None:
    shown = operator(home, "audit", "export", "--format", style, "--run", "run-b").out
    assert ("thought 2" in shown, "thought 3" in shown) == (True, False)
    file = tmp_path / "export"
    assert operator(home, "audit", "export", str(file), "--format", style).code == 0
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
def test_nonsense_gets_one_sentence(
    operator: Operator, home: Path, words: list[str], code: int
) -> None:
    done = operator(home, "audit", *words)
    assert done.code == code
    assert done.err.startswith("operator: ")
    assert done.err.count("\n") == 1


def test_an_empty_ledger_has_no_head_to_anchor(operator: Operator, tmp_path: Path) -> None:
    done = operator(tmp_path / "empty", "audit", "anchor")
    assert (done.code, "empty" in done.err) == (2, True)


def test_a_text_is_found_newest_first(operator: Operator, home: Path) -> None:
    found = json.loads(operator(home, "audit", "search", "thought", "--json").out)["entries"]
    assert [entry["seq"] for entry in found] == list(range(ENTRIES, 0, -1))
    assert "thought 3" in operator(home, "audit", "search", "thought 3").out
    assert operator(home, "audit", "search", "nonsense").out == "Nothing was found.\n"


def test_the_tail_goes_on_as_entries_come(home: Path) -> None:
    argv = [str(OPERATOR), "audit", "tail", "-n", "1", "-f", "--json", "--home", str(home)]
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
        assert following.wait(30) == 143
