"""Terminal, policy and settings: what is typed is judged first, and no secret is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import AuthorityError, NotFoundError
from operator_sre.app.commands import Job, Jobs, Wanted, begun_at
from operator_sre.app.confirmations import request
from operator_sre.app.history import show_command
from operator_sre.app.persons import acting_as
from operator_sre.app.policy import shown_policy
from operator_sre.app.restraints import execute_asked
from tests.faces.web.world import Web, fields_of
from tests.processes.waiting import eventually


def test_a_command_is_judged_while_it_is_typed_and_nothing_runs(web: Web) -> None:
    person = web.person("viewer")
    before = len(web.api.told(Kind.TOOL_CALL))
    for command, level in (
        ("uptime", "safe"),
        ("touch /srv/x", "review"),
        ("mkfs /dev/sda", "block"),
    ):
        told = person.post("/terminal/check", person.guard() | {"command": command})
        assert told.status_code == 200
        assert level in told.text.lower(), told.text
    assert "Type a command" in person.post("/terminal/check", person.guard()).text
    strange = {"command": "id", "subject": "nobody"}
    assert "notice warn" in person.post("/terminal/check", person.guard() | strange).text
    assert len(web.api.told(Kind.TOOL_CALL)) == before


def test_whoever_may_only_look_runs_nothing(web: Web) -> None:
    person = web.person("viewer")
    answer = person.post("/terminal/run", person.guard() | {"command": "uptime"})
    assert answer.status_code == 403
    assert not web.state.jobs.newest(limit=5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": ""},
        {"command": "id", "cwd": "relative"},
        {"command": "id", "seconds": "0"},
        {"command": "id", "seconds": "1e9"},
        {"command": "x" * 20_000},
        {"command": "id", "subject": "nobody"},
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(web: Web, wrong: dict[str, str]) -> None:
    person = web.person("approver")
    answer = person.post("/terminal/run", person.guard() | wrong)
    assert answer.status_code == (404 if "subject" in wrong else 400), answer.text
    assert not web.state.jobs.newest(limit=5)


def _during(web: Web, deed: Callable[[Jobs], Awaitable[Job]], who: str = "ada") -> Job:
    async def whole() -> Job:
        with acting_as(who, role="approver"):
            return await deed(Jobs(web.app))

    return asyncio.run(whole())


def test_a_command_runs_through_the_gate_and_is_found_in_the_ledger(web: Web) -> None:
    async def deed(jobs: Jobs) -> Job:
        job = jobs.begin(Wanted("echo here"))
        assert not job.over
        await eventually(lambda: job.over)
        assert jobs.newest(limit=5) == [job]
        await jobs.end()
        return job

    job = _during(web, deed)
    assert job.executed is not None
    assert job.executed.exit_code == 0, job.state
    assert job.executed.result.stdout == "here\n"
    assert job.by == "ada"
    assert web.person("viewer").get(f"/history/{job.seq}").status_code == 200


def test_a_command_that_is_cancelled_ends_and_says_so(web: Web) -> None:
    async def deed(jobs: Jobs) -> Job:
        job = jobs.begin(Wanted("tail -f /dev/null"))
        await eventually(lambda: jobs.newest(limit=1)[0].seq or job.over)
        with acting_as("bob", role="approver"), pytest.raises(AuthorityError):
            jobs.cancel(job.id, admin=False)
        with pytest.raises(NotFoundError):
            jobs.cancel("nothing", admin=True)
        assert not job.over, job.state
        jobs.cancel(job.id, admin=False)
        await eventually(lambda: job.over)
        return job

    job = _during(web, deed)
    assert job.state == "cancelled"
    # Not only nobody waits for it: it was ended, and that is on record.
    assert show_command(web.app, job.seq).command.outcome == "cancelled"


def test_two_who_are_alike_are_told_apart(web: Web) -> None:
    async def deed(jobs: Jobs) -> Job:
        two = [jobs.begin(Wanted("tail -f /dev/null")) for _ in range(2)]
        await eventually(lambda: all(one.seq for one in jobs.newest(limit=2)))
        seen = [one.seq for one in two]
        await jobs.end()
        assert len(set(seen)) == 2, "each has an entry of its own"
        assert seen == [begun_at(web.app, one.permit, after=one.head) for one in two]
        return two[0]

    assert _during(web, deed).over


def test_jobs_are_shown_with_what_became_of_them(web: Web) -> None:
    person = web.person("approver")

    async def begun_and_shown() -> str:
        transport = httpx2.ASGITransport(app=web.console)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            cookie = "; ".join(f"{name}={one}" for name, one in person.cookies.items())
            headers = {"cookie": cookie, "origin": "http://localhost"}
            fields = person_guard | {"command": "echo '<b>shown</b>'", "seconds": "20"}
            told = await client.post("/terminal/run", data=fields, headers=headers)
            assert told.status_code == 303, told.text
            (job,) = web.state.jobs.newest(limit=5)
            await eventually(lambda: job.over)
            return (await client.get("/terminal", headers=headers)).text

    person_guard = person.guard()
    text = asyncio.run(begun_and_shown())
    assert "&lt;b&gt;shown&lt;/b&gt;" in text
    assert "exit 0" in text


def test_every_rule_is_shown_with_its_examples_and_found_by_its_words(web: Web) -> None:
    person = web.person("viewer")
    _, digest, said = shown_policy(web.app.config)
    text = person.get("/policy").text
    assert digest[:16] in text
    first = said["rules"][0]
    assert first["id"] in text
    assert "matches" in person.get("/policy", params={"q": first["id"]}).text
    assert "No rules match" in person.get("/policy?q=nobody-wrote-this").text
    places = [person.get(f"/policy?at={at}").text for at in range(0, len(said["rules"]), 60)]
    shown = "".join(places)
    assert all(rule["id"] in shown for rule in said["rules"][:200])


def test_a_command_and_a_rule_are_explained(web: Web) -> None:
    person = web.person("viewer")
    told = person.post("/policy/explain", person.guard() | {"what": "rm -rf / #<script>"})
    assert told.status_code == 200
    assert "badge" in told.text
    assert "<script>" not in told.text
    rule = shown_policy(web.app.config)[2]["rules"][0]["id"]
    told = person.post("/policy/explain", person.guard() | {"what": rule})
    assert "origin" in told.text
    assert person.get("/confirmations/nothing").status_code == 404


def test_a_change_that_is_asked_for_is_seen_everywhere_and_answered_once(web: Web) -> None:
    """By a yes that is about what was shown, or by a no with its reason."""
    admin, viewer = web.person("admin"), web.person("viewer")
    for number, answer in enumerate(("approve", "decline")):
        asked = execute_asked(web.app, Mode.EXECUTE, ["shop"], reason=f"test {number}")
        assert asked is not None
        one = asyncio.run(request(web.app, asked, by=Actor("bob", "user")))
        place = f"/confirmations/{one.id}"
        for page in ("/", "/policy"):
            assert f'href="{place}"' in viewer.get(page).text
        assert ">1 change<" in viewer.get("/parts/standing").text
        assert "<form" not in viewer.part(f"/parts{place}").text
        text = admin.get(place).text
        assert 'href="/policy" data-go="p" aria-current="page"' in text
        fields = fields_of(text, f"{place}/{answer}")
        empty = {**admin.guard(), "reason": "", "digest": ""}
        assert admin.post(f"{place}/{answer}", empty).status_code == 400
        done = admin.post(f"{place}/{answer}", {**fields, "reason": "because"})
        assert done.status_code == 303, done.text
        assert done.headers["location"] == place
        late = admin.post(f"{place}/decline", {**admin.guard(), "reason": "too late"})
        assert late.status_code == 409
        part = viewer.part(f"/parts{place}").text
        assert ("The change is applied" in part) is (answer == "approve")
        assert ("Declined" in part) is (answer == "decline")
        assert "change<" not in viewer.get("/parts/standing").text
    asyncio.run(web.app.store.modes.reset("shop", by="ada", reason="over"))


def test_settings_show_names_and_never_a_secret(web: Web) -> None:
    text = web.person("admin").get("/settings").text
    for name, secret in web.api.secrets.items():
        assert name in text
        assert secret not in text
    assert "reasoner" in text
    refused = web.person("viewer").post("/settings/notify", web.person("viewer").guard())
    assert refused.status_code == 403
    nobody = web.person("admin").post("/settings/notify", web.person("admin").guard())
    assert nobody.status_code == 400
    assert "Notifications are not configured" in nobody.text
    strange = web.person("admin").guard() | {"model": "nobody"}
    told = web.person("admin").post("/settings/model", strange)
    assert told.status_code == 404, told.text
    assert "nobody" in told.text
