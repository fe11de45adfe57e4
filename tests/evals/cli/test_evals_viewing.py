"""`operator eval viewer`, `report` and `export --format inspect`, as they are typed."""

from __future__ import annotations

import json
import signal
import zipfile
from pathlib import Path

import httpx2
import pytest

from operator_protocols.domain.entry import Kind
from tests.e2e.home import Home
from tests.e2e.waiting import eventually
from tests.evals.samples import fill, trials


@pytest.fixture
def measured(home: Home) -> Home:
    """A home with a campaign."""
    fill(home.path / "eval.db")
    return home


def test_a_report_is_one_file(measured: Home, tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    done = measured.run("eval", "report", "reference", "--output", str(file), "--json")
    assert done.json["trials"] == len(list(trials()))
    assert file.read_text("utf-8").count("<article") == done.json["trials"]
    assert file.stat().st_mode & 0o077 == 0
    short = measured.run("eval", "report", "reference", "--only-misses", "--output", str(file))
    assert "Wrote campaign" in short.out
    assert 0 < file.read_text("utf-8").count("<article") < done.json["trials"]
    unknown = measured.run("eval", "report", "none")
    assert unknown.code != 0
    assert "Known: reference" in unknown.err
    missing = measured.run("eval", "report", "x", "--database", str(tmp_path / "no.db"))
    assert "no such file" in missing.err
    logs = tmp_path / "logs"
    assert measured.run("eval", "export", str(logs), "--format", "inspect").code == 0
    assert len(list(logs.glob("*.eval"))) == 4
    assert all(zipfile.is_zipfile(one) for one in logs.iterdir())


def test_the_viewer_serves_this_machine_until_it_is_stopped(measured: Home) -> None:
    viewer = measured.fork("eval", "viewer", "--port", "0", "--json")
    line = eventually(lambda: viewer.said.partition("\n")[0], "a place")
    (place,) = json.loads(line)["listening"]
    assert place.startswith("http://127.0.0.1:")
    assert "reference" in httpx2.get(place, timeout=30).text
    assert viewer.end() == 128 + signal.SIGTERM
    (opened,) = measured.entries(Kind.LISTENER_OPENED)
    assert opened.payload["public"] is False


def test_beyond_this_machine_a_person_is_asked_as_for_the_api(measured: Home) -> None:
    done = measured.run("eval", "viewer", "--bind", "0.0.0.0", "--port", "0")  # noqa: S104
    assert "--insecure-public" in done.err
    asked = measured.run(
        *("eval", "viewer", "--bind", "0.0.0.0", "--port", "0"),  # noqa: S104
        *("--insecure-public", "--propose"),
    )
    assert "confirmations approve" in asked.out + asked.err
