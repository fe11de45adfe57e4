"""What goes on until it is stopped tells programs what happens, line by line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from operator_sre.clock import SystemClock
from operator_sre.store import open_store
from tests.contract.samples import violation

OPERATOR = str(Path(sys.executable).with_name("operator"))


@pytest.mark.parametrize("verb", [["agent", "start"]])
def test_every_new_entry_is_a_document_on_a_line(tmp_path: Path, verb: list[str]) -> None:
    home = tmp_path / "home"
    store = open_store(home / "operator.db", clock=SystemClock())
    known = f'[subjects.{violation().subject}]\nplugin = "ratelimiter"\n'
    target = 'targets = [{ name = "node-1", kind = "node", port = 1 }]\n'
    (tmp_path / "operator.toml").write_text(known + target)
    argv = [OPERATOR, *verb, "--json", "--home", str(home)]
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        try:
            asyncio.run(store.tickets.open([violation()]))
            assert running.stdout is not None
            seen: list[str] = []
            while "ticket_claimed" not in seen:
                document = json.loads(running.stdout.readline())
                assert document["schema_version"] == "1.0.0"
                seen.append(document["entry"]["kind"])
        finally:
            running.terminate()
            store.close()
        assert running.wait(20) == 143
