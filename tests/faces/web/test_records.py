"""History and audit in the browser: everything is found again, nothing in it does anything."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile

import pytest

from operator_sre.app.audit import Filter, export_text, tail
from operator_sre.app.history import list_commands, parse_filter
from operator_sre.faces.web.audit import Walk
from operator_sre.faces.web.responses import download
from operator_sre.faces.web.routes import address
from tests.faces.web.world import Web
from tests.processes.waiting import eventually


def test_every_command_is_listed_and_leads_to_all_that_is_known_of_it(web: Web) -> None:
    person = web.person("viewer")
    known = list_commands(web.app, parse_filter(web.app), limit=50).commands
    text = person.get("/history").text
    assert known
    for one in known:
        assert f'href="/history/{one.seq}"' in text
    shown = person.get(f"/history/{known[0].seq}")
    assert shown.status_code == 200
    assert f"entry {known[0].seq}" in shown.text
    assert person.part("/parts/history").text.count("data-row") == len(known)
    assert person.get("/history/999999").status_code == 404


def test_filters_leave_out_what_does_not_fit_and_name_what_there_is(web: Web) -> None:
    person = web.person("viewer")
    known = list_commands(web.app, parse_filter(web.app), limit=50).commands
    ran = [one for one in known if one.succeeded]
    rest = [one for one in known if not one.succeeded]
    text = person.get("/history?outcome=succeeded").text
    assert ran
    assert all(f'href="/history/{one.seq}"' in text for one in ran)
    assert not any(f'href="/history/{one.seq}"' in text for one in rest)
    word = known[0].command.split()[0]
    assert f'href="/history/{known[0].seq}"' in person.get("/history", params={"q": word}).text
    strange = person.get("/history", params={"q": "nobody-ever-said-this"})
    assert "No commands" in strange.text
    refused = person.get("/history?level=PERHAPS")
    assert refused.status_code == 400
    assert "is not a valid level" in refused.text


def test_figures_say_how_often_and_how_well(web: Web) -> None:
    text = web.person("viewer").get("/history/statistics").text
    known = list_commands(web.app, parse_filter(web.app), limit=50).commands
    assert f"{len(known)} command" in text
    assert web.person("viewer").get("/history/statistics?since=soon").status_code == 400


def test_the_ledger_is_paged_from_its_end_to_its_beginning(web: Web) -> None:
    person = web.person("viewer")
    head = tail(web.app, count=1)[0].seq
    seen: set[int] = set()
    place = "/audit"
    for _ in range(100):
        text = person.get(place).text
        seen |= {seq for seq in range(1, head + 1) if f'href="/audit/{seq}"' in text}
        older = text.rpartition('<a class="button" href="/audit?before=')[2]
        if older == text:
            break
        place = f"/audit?before={older.partition(chr(34))[0]}"
    assert seen >= set(range(1, head + 1))


def test_every_entry_says_what_it_is_about(web: Web) -> None:
    """Also those of which no story tells: a look, a permit, a token, a text."""
    web.sign_in("viewer")
    rows = re.findall(r"<tr>.*?</tr>", web.person("viewer").get("/audit").text, re.DOTALL)
    assert len(rows) > 10
    assert [row for row in rows if re.search(r'<td class="long[^"]*"></td>', row)] == []
    (signed, *_) = [row for row in rows if "signed_in" in row]
    assert "name: viewer, role: viewer" in signed


def test_an_entry_shows_its_payload_and_its_place_in_the_chain(web: Web) -> None:
    person = web.person("viewer")
    newest = tail(web.app, count=2)
    text = person.get(f"/audit/{newest[0].seq}").text
    assert newest[0].hash in text
    assert newest[0].previous in text
    assert f'href="/audit/{newest[1].seq}" rel="next"' in text
    assert person.get("/audit/0").status_code == 404
    assert person.get("/audit/99999999").status_code == 404


def test_the_chain_is_walked_once_for_all_who_ask(web: Web) -> None:
    person = web.person("viewer")
    assert "Not verified" in person.part("/parts/audit/walk").text
    assert person.send("/audit", "/audit/verify").status_code == 303
    walk: Walk = web.state.walk
    asyncio.run(eventually(lambda: not walk.running))
    assert walk.report is not None
    assert walk.report.whole
    assert walk.checked >= walk.total > 0
    assert walk.report.entries == walk.checked
    web.state.renderings._kept.clear()
    assert "Intact:" in person.part("/parts/audit/walk").text


def test_a_walk_that_is_under_way_is_not_begun_again(web: Web) -> None:
    walk = Walk()
    with walk._held:
        assert not walk.begin(web.app, "ada")
        assert walk.running
    assert walk.begin(web.app, "ada")
    asyncio.run(eventually(lambda: not walk.running))
    assert walk.by == "ada"


@pytest.mark.parametrize("style", ["jsonl", "csv", "html"])
def test_entries_are_taken_along_as_text(web: Web, style: str) -> None:
    answer = web.person("viewer").get(f"/audit/export?style={style}&ticket=1")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="ledger.{style}"'
    assert len(answer.text.splitlines()) > 1
    if style == "jsonl":
        assert {json.loads(line)["ticket"] for line in answer.text.splitlines()} == {1}
    assert answer.text.splitlines() == list(export_text(web.app, style, Filter(ticket=1)))


def test_a_bundle_is_taken_along_whole(web: Web) -> None:
    person = web.person("viewer")
    answer = person.get("/audit/export")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as bundle:
        lines = bundle.read("entries.jsonl").splitlines()
    # Looking writes nothing, signing in does.
    assert len(lines) >= tail(web.app, count=1)[0].seq - 2
    assert person.get("/audit/export?style=pdf").status_code == 400
    assert person.get("/audit/export?kind=nonsense").status_code == 400


def test_names_of_files_mean_nothing_anywhere() -> None:
    told = download(b"", '../"x\r\nset-cookie: a=b.txt', "text/plain")
    assert told.headers["content-disposition"] == 'attachment; filename="x-set-cookie-a-b.txt"'
    assert "set-cookie" not in told.headers
    assert address("/a", {"q": "x y&z", "level": "", "before": None}) == "/a?q=x+y%26z"


def test_a_walk_ends_with_the_console(web: Web) -> None:
    walk = Walk()
    walk.close()
    assert walk.begin(web.app, "ada")
    asyncio.run(eventually(lambda: not walk.running))
    assert walk.report is None
    assert "stopped" in walk.problem
