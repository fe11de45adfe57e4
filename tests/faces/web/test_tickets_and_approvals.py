"""Tickets and approvals: everything is shown, the right people decide, and text is only text."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from itertools import count
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.diagnosis import (
    Alternative,
    Diagnosis,
    Evidence,
    Option,
    RankedHypothesis,
)
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.permit import ApprovalState, Binding, Permit, fingerprint_of
from operator_protocols.domain.ticket import MoveKind, Ticket, TicketState
from operator_protocols.domain.token import Audience, Role, Token
from operator_protocols.domain.verdict import Risk
from operator_sre.app.approvals import show_approval
from operator_sre.app.outlook import Foreseen, foresee_request
from operator_sre.app.reports.report import permission_of, result_of
from operator_sre.app.story import hypotheses_of
from operator_sre.app.tokens import PREFIX
from operator_sre.codec import to_json
from operator_sre.faces.web import tickets as tickets_page
from operator_sre.faces.web.approvals import STALE, exact, facts_of_request, waiting_for
from operator_sre.faces.web.command_output import HEAD_CHARACTERS_MAX, TAIL_CHARACTERS_MAX, Said
from operator_sre.faces.web.tickets import (
    Dossier,
    Dossiers,
    Part,
    ReportFormat,
    Weighing,
    moves_for,
    weighings_of,
)
from operator_sre.gate import Gate, Policy
from tests.contract.samples import escalated, violation
from tests.contract.samples import ticket as ticket_sample
from tests.faces.web.world import Person, Web, fields_of

THOUGHT = "I ask whether its process lives."
RANKED = [
    RankedHypothesis("process_dead", "node-1", 0.6, 0.2),
    RankedHypothesis("overloaded", "node-1", 0.3, 0.4),
]
HOSTILE = (
    "<script>window.pwned = 1</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% include 'base.html' %}${7*7}",
    "javascript:alert(1)",
    "\x1b]52;c;cHduZWQ=\x07\x1b]0;title\x07\x1b[31mred",
    "\u202egnp.exe\u2066 \u200b\ud800",
    "</code></pre></details><form action=/x><!--",
    "A" * 20_000,
)

_NUMBERS = count()


@pytest.fixture(scope="module")
def bob(web: Web) -> Person:
    """Somebody else, who has a token of their own."""
    now = web.clock.now()
    until, door = now + timedelta(days=2), Audience.WEB
    token = Token("token-bob", "bob", Role.ADMIN, "bob", now, until, audience=door)
    secret = f"{PREFIX}{'b' * 43}"
    web.api.secrets["bob"] = secret
    asyncio.run(web.app.store.tokens.add(token, fingerprint=fingerprint_of(secret)))
    return web.sign_in("bob")


def _asked(web: Web, name: str, command: str = "systemctl restart shop", **changes: Any) -> str:
    action = replace(Action.shell(command, target="node-1"), cwd="/srv", reasoning="it is dead")
    agent = f"{socket.gethostname()}:7"
    told = {"action": action, "binding": Binding(action.digest), **changes}
    web.api.ask_approval(name, requester=Actor("system", "system", agent), **told)
    return f"/approvals/{name}"


def _state(web: Web, name: str) -> str:
    return show_approval(web.app, name).approval.state.value


def _decided(web: Web, name: str) -> list[str]:
    told = [one.payload for one in web.api.told(Kind.APPROVAL_DECIDED)]
    return [str(one["answer"]) for one in told if one["id"] == name]


def _worked_on(web: Web, words: str, output: str = "said\n") -> Ticket:
    """A ticket that a mind thought about, and for which a command ran; all texts are `words`."""

    async def live() -> Ticket:
        store = web.app.store
        target = f"node-{next(_NUMBERS)}-{words[:40]}"
        opened = await store.tickets.open([violation(target, detail=words)])
        claimed = await store.leases.claim("w", run=f"run-{opened.id}", lease_s=30, attempts_max=3)
        assert claimed is not None
        run, number = claimed.run, claimed.id
        ranked = to_json(RANKED)
        thought = {"reasoning": THOUGHT + words, "calls": [], "hypotheses": ranked}
        await store.journal.append(Draft(Kind.REASONING, thought, ticket=number, run=run))
        gate = Gate(Policy, store.journal, store.approvals, web.clock, lambda: f"permit-{number}")
        action = Action.shell(f"cat {json.dumps(words)}", reasoning=words)
        permit = await gate.permit(gate.judge(Action.shell("uptime", reasoning=words)), claimed)
        assert isinstance(permit, Permit)
        intent = await store.intents.begin(permit)
        entry = await store.intents.end(intent, Result(Outcome.RAN, 0, stdout=output + words))
        refused = {
            "action": to_json(action),
            "result": to_json(Result(Outcome.REFUSED, stderr=words)),
        }
        await store.journal.append(Draft(Kind.REFUSED, refused, ticket=number, run=run))
        found = _diagnosis(words, entry.seq)
        await store.journal.append(Draft(Kind.DIAGNOSIS, to_json(found), ticket=number, run=run))
        await store.leases.end(claimed, escalated(claimed, words))
        assert claimed.id == opened.id
        return claimed

    return asyncio.run(live())


def _diagnosis(words: str, seq: int) -> Diagnosis:
    return Diagnosis(
        cause="process_dead",
        target=words,
        summary=words,
        severity=Severity.CRITICAL,
        confidence=0.97,
        timeline=(),
        affected=(words,),
        evidence=(Evidence(words, seq), Evidence(words, None)),
        hypotheses=(),
        alternatives=(Alternative("overloaded", words, (), (), words),),
        options=(Option(words, Risk.LOW, reversible=True, trade_off=words),),
        choice=words,
        why=words,
    )


class _Skeleton(HTMLParser):
    """The elements of a page and the names of their attributes, without marks and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "mark":
            self.found.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


# What everybody sees.


def test_tickets_are_found_by_state_subject_and_words_page_by_page(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = web.person("viewer")
    live = viewer.get("/tickets").text
    every = viewer.get("/tickets?state=any").text
    assert 'href="/tickets/2"' in live
    assert 'href="/tickets/1"' not in live, "it is resolved"
    assert 'href="/tickets/1"' in every
    assert 'href="/tickets/1"' in viewer.get("/tickets?state=resolved&subject=shop&q=NODE-1").text
    assert "No tickets match" in viewer.get("/tickets?q=nobody-ever-said-so").text
    assert viewer.get("/tickets?state=perhaps").status_code == 400
    assert viewer.get("/tickets?after=-1").status_code == 404
    monkeypatch.setattr(tickets_page, "PAGE_MAX", 2)
    seen, path = [], "/tickets?state=any&subject=shop"
    while path:
        text = viewer.get(path).text
        seen += re.findall(r'href="/tickets/(\d+)" data-row', text)
        following = re.search(r'<a class="button" href="([^"]+)">Next', text)
        path = following[1].replace("&amp;", "&") if following else ""
    assert len(seen) == len(set(seen)) == len(web.app.store.tickets.find(subject="shop"))
    assert viewer.part("/parts/tickets?state=any").text.count("data-row") == 2


def test_a_ticket_shows_what_is_thought_with_evidence_that_leads_to_its_entry(web: Web) -> None:
    ticket = _worked_on(web, "plain words")
    viewer = web.person("viewer")
    text = viewer.get(f"/tickets/{ticket.id}").text
    (diagnosis,) = [one for one in web.api.told(Kind.DIAGNOSIS) if one.ticket == ticket.id]
    cited = diagnosis.payload["evidence"][0]["seq"]
    assert f'<li>plain words <a href="/audit/{cited}">entry {cited}</a>' in text
    assert "no source" in text
    assert re.search(r"process_dead <span[^>]*>at node-1</span></th>\s*<td[^>]*>60 %", text)
    assert "<form" not in text.split("<main")[1].split("</main>")[0], "who looks changes nothing"
    (call,) = [one for one in web.api.told(Kind.TOOL_CALL) if one.ticket == ticket.id]
    assert f'data-output="{call.seq}"' in text
    for name in Part:
        part = viewer.part(f"/parts/tickets/{ticket.id}/{name}")
        assert part.status_code == 200, name
        assert "<html" not in part.text
        assert "<form" not in part.text
    assert viewer.part(f"/parts/tickets/{ticket.id}/nothing").status_code == 404
    assert viewer.part("/parts/tickets/99999/state").status_code == 404
    dossier = Dossiers().of(web.app, ticket.id)
    assert isinstance(dossier, Dossier)
    assert [one.text[:5] for one in dossier.weighings] == ["I ask"]
    assert dossier.weighings[0].shares[("process_dead", "node-1")] == 0.6
    for one in dossier.commands():
        action = one["action"]
        expected = (result_of(action), permission_of(action.permission))
        assert (one["result"], one["allowed"]) == expected
    assert weighings_of(()) == ()
    assert hypotheses_of(diagnosis) == (), "a diagnosis is no turn"
    assert Weighing(1, "", {}).shares == {}


def test_a_report_is_a_file_to_keep_and_a_page_of_it_is_never_shown_here(web: Web) -> None:
    viewer = web.person("viewer")
    begins = {"md": "# Incident 1", "html": "<!doctype html>", "json": "{"}
    for kind in ReportFormat:
        answer = viewer.get(f"/tickets/1/report.{kind}")
        assert answer.status_code == 200
        assert answer.headers["content-disposition"] == f'attachment; filename="incident-1.{kind}"'
        assert answer.text.lower().startswith(begins[kind].lower())
    assert json.loads(viewer.get("/tickets/1/report.json").text)["report"]["ticket"] == 1
    assert viewer.get("/tickets/99999/report.md").status_code == 404
    assert viewer.get("/tickets/1/report.exe").status_code == 404


def test_what_a_command_said_is_sent_in_bounded_pieces(web: Web) -> None:
    ticket = _worked_on(web, "quiet", output="hello\n")
    (call,) = [one for one in web.api.told(Kind.TOOL_CALL) if one.ticket == ticket.id]
    answer = web.person("viewer").get(f"/parts/outputs/{call.seq}")
    told = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert told[0]["text"] == "hello\nquiet"
    assert told[-1]["over"].startswith("exit 0")
    assert web.person("viewer").get("/parts/outputs/999999").status_code == 404
    said = Said()
    for _ in range(100):
        said.feed(1, b"x" * 10_000)
    said.feed(2, "end é".encode()[:-1])
    assert len(said.head) + len(said.tail) <= HEAD_CHARACTERS_MAX + 2 * TAIL_CHARACTERS_MAX
    taken = said.take()
    assert len(taken["text"]) + taken["cut"] + len(taken["rest"]) == 1_000_000 + len("end ")
    assert taken["rest"].endswith("end ")
    assert said.take() == {}
    assert not said.feed_limited(1, b"x" * 4_000_000)


# Answers.


def test_a_request_tells_everything_that_one_needs_to_know(web: Web) -> None:
    page = _asked(web, "whole", reads=("/etc/shop",), network=("10.0.0.1",), reversible=False)
    text = web.person("viewer").get(page).text
    for words in (
        *("systemctl restart shop", "/srv", "node-1", "it is dead", "/etc/shop", "10.0.0.1"),
        *("risk medium", "Not reversible.", socket.gethostname(), "data-until="),
        *("Your role is read-only", "Dry run", "restart_node changes something"),
    ):
        assert words in text, words
    view = show_approval(web.app, "whole")
    foreseen = foresee_request(web.app, view.approval)
    assert isinstance(foreseen, Foreseen)
    assert foreseen.verdict is not None
    assert (foreseen.elsewhere, foreseen.problem) == ("", "")
    lost = foresee_request(web.app, replace(view.approval, subject="nobody-knows"))
    assert (lost.verdict, bool(lost.problem)) == (None, True)
    assert facts_of_request(web.app, view)["missing"] == 1
    assert [one["one"].id for one in waiting_for(web.app, 1)].count("whole") == 1
    assert "systemctl restart shop" in web.person("viewer").get("/tickets/1").text
    assert 'href="/approvals/whole"' in web.person("viewer").get("/approvals").text
    every = web.person("viewer").get("/approvals?every=true").text
    newest, older = 'href="/approvals/whole"', 'href="/approvals/a"'
    assert 0 < every.index(newest) < every.index(older)


def test_yes_once_is_one_answer_however_often_the_form_is_sent(web: Web) -> None:
    page = _asked(web, "once")
    person = web.person("approver")
    fields = fields_of(person.get(page).text, f"{page}/approve")
    first = person.post(f"{page}/approve", {**fields, "reason": "go"})
    again = person.post(f"{page}/approve", {**fields, "reason": "go"})
    assert (first.status_code, first.headers["location"]) == (303, page)
    assert again.status_code == 403
    assert "already sent" in again.text
    assert _decided(web, "once") == ["approved"]
    (entry,) = [one for one in web.api.told(Kind.APPROVAL_DECIDED) if one.payload["id"] == "once"]
    assert entry.actor.type == "user"
    text = person.get(page).text
    assert "Approved" in text
    assert f'action="{page}/approve"' not in text, "there is nothing left to answer"


def test_of_two_who_answer_one_wins_and_the_other_is_told_who_and_when(
    web: Web, bob: Person
) -> None:
    page = _asked(web, "raced")
    admin = web.person("admin")
    mine = fields_of(admin.get(page).text, f"{page}/reject")
    theirs = fields_of(bob.get(page).text, f"{page}/approve")
    assert bob.post(f"{page}/approve", theirs).status_code == 303
    late = admin.post(f"{page}/reject", {**mine, "reason": "no"})
    assert late.status_code == 409
    assert "is already approved" in late.text
    assert f"bob answered at {web.clock.now():%H:%M:%S} UTC" in late.text
    assert (_decided(web, "raced"), _state(web, "raced")) == (["approved"], "approved")
    asyncio.run(web.state.refusals.flush())
    told = [one.payload["reasons"] for one in web.api.told(Kind.ACCESS_REFUSED)]
    assert sum(one.get(STALE, 0) for one in told) == 1, "it is on record"


def test_where_two_have_to_agree_nobody_says_yes_twice(web: Web, bob: Person) -> None:
    page = _asked(web, "two", needed=2, risk=Risk.CRITICAL)
    admin = web.person("admin")
    old = fields_of(admin.get(page).text, f"{page}/approve")
    assert bob.send(page, f"{page}/approve").status_code == 303
    assert _state(web, "two") == "pending"
    assert "1 of 2: bob" in bob.get(page).text
    assert bob.send(page, f"{page}/approve").status_code == 409, "one person is one"
    stale = admin.post(f"{page}/approve", old)
    assert (stale.status_code, "bob" in stale.text) == (409, True), "it is not what was seen"
    assert admin.send(page, f"{page}/approve").status_code == 303
    assert _state(web, "two") == "approved"


def test_what_is_superseded_or_too_late_is_told_and_answered_by_nobody(web: Web) -> None:
    page, late = _asked(web, "moved"), _asked(web, "late")
    person = web.person("approver")
    fields = fields_of(person.get(page).text, f"{page}/approve")
    old = fields_of(person.get(late).text, f"{late}/approve")
    why = "the policy has changed"
    decide = web.app.store.approvals.decide
    asyncio.run(decide("moved", ApprovalState.SUPERSEDED, by=Actor(), reason=why, version=1))
    part = person.part(f"/parts{page}").text
    assert "Superseded." in part
    assert "The policy has changed" in part
    assert "<form" not in part
    assert person.post(f"{page}/approve", fields).status_code == 409
    web.clock.advance(61.0)
    assert person.post(f"{late}/approve", old).status_code == 409
    assert "Expired." in person.get(late).text
    assert (_decided(web, "moved"), _decided(web, "late")) == (["superseded"], [])


def test_always_makes_a_rule_and_a_no_needs_a_reason(web: Web) -> None:
    page, other = _asked(web, "always", "mkdir -p /srv/shop/a"), _asked(web, "never")
    person = web.person("admin")
    deed = f"{page}/approve"
    assert person.send(page, deed, always="sometimes").status_code == 400
    assert person.send(page, deed, always="path").status_code == 400, "below which path?"
    assert _state(web, "always") == "pending"
    sent = person.send(page, deed, always="path", path="/srv/shop", scope="subject")
    assert sent.status_code == 303
    (rule,) = [one for one in web.app.store.standing.find() if one.approval == "always"]
    assert (rule.likeness, rule.scope, rule.path) == ("path", "subject", "/srv/shop")
    assert person.send(other, f"{other}/reject").status_code == 400
    assert person.send(other, f"{other}/reject", reason="not now").status_code == 303
    assert show_approval(web.app, "never").approval.reason == "not now"


def test_nobody_does_more_than_their_role_allows_whatever_they_send(web: Web) -> None:
    page = _asked(web, "guarded")
    viewer = web.person("viewer")
    deeds = (f"{page}/approve", f"{page}/reject", "/tickets/2/moves", "/tickets/2/resolve")
    for deed in deeds:
        fields = {**viewer.guard(), "seen": "1", "reason": "x", "move": "close"}
        assert viewer.post(deed, fields).status_code == 403, deed
        assert viewer.post(deed, {**fields, "csrf": "x"}).status_code == 403, deed
        assert web.person("admin").post(deed, {"seen": "1", "reason": "x"}).status_code == 403
        assert web.stranger().post(deed, fields).status_code in (303, 401)
    assert _state(web, "guarded") == "pending"
    ticket = web.app.store.tickets.get(2)
    assert ticket is not None
    assert ticket.state is not TicketState.CLOSED
    assert web.api.told(Kind.ACCESS_REFUSED)


# What people do with tickets.


def test_people_comment_assign_hold_let_go_close_and_open_again(web: Web) -> None:
    opened = asyncio.run(web.app.store.tickets.open([violation("node-moved")]))
    page, person = f"/tickets/{opened.id}", web.person("approver")
    deed = f"{page}/moves"

    def send(**fields: str) -> int:
        hidden = fields_of(person.get(page).text, deed)
        return person.post(deed, {**hidden, **fields}).status_code

    assert send(move="comment", reason="  ") == 400
    assert send(move="comment", reason="I look at it.") == 303
    assert "Comment added" in person.get(page).text
    assert "commented: I look at it." in person.get(page).text
    assert send(move="assign", assignee="ada") == 303
    assert send(move="hold", **{"for": "2h"}, reason="lunch") == 303
    held = person.get(page).text
    assert 'class="badge held"' in held
    assert "Release" in held
    assert send(move="hold", **{"for": "soon"}) == 400
    assert send(move="unhold") == 303
    assert send(move="close") == 400, "without a proof it needs a reason"
    assert send(move="close", reason="a drill") == 303
    assert send(move="reopen") == 303
    assert send(move="escalate", reason="over to you") == 303
    assert send(move="hand_off", reason="x") == 400
    assert send(move="explode") == 400
    kinds = [one.kind for one in web.app.store.entries.after(0, limit=9999, ticket=opened.id)]
    assert kinds == [
        *(Kind.TICKET_OPENED, Kind.TICKET_COMMENTED, Kind.TICKET_ASSIGNED, Kind.TICKET_HELD),
        *(Kind.TICKET_UNHELD, Kind.TICKET_CLOSED, Kind.TICKET_REOPENED, Kind.TICKET_ESCALATED),
    ]
    ticket = ticket_sample()
    assert "close" in moves_for(ticket, paused=False)
    assert "unhold" not in moves_for(ticket, paused=False)
    assert moves_for(replace(ticket, state=TicketState.RESOLVED), paused=False) == {
        *(MoveKind.ASSIGN.value, MoveKind.COMMENT.value, MoveKind.REOPEN.value),
    }


# Text from outside.


def test_hidden_and_foreign_characters_of_a_command_are_seen() -> None:
    shown = str(exact("ls \u202ex\u202c p\u0430th \u3164 a\u0301 <b>\t \nend\r"))
    assert shown.startswith('ls <mark class="odd" title="hidden: U+202E RIGHT-TO-LEFT OVERRIDE">')
    assert "\\u202e</mark>x" in shown
    assert '<mark class="foreign" title="not ASCII: U+0430 CYRILLIC SMALL LETTER A">\u0430' in shown
    assert "\\u3164</mark>" in shown
    assert "\\u0301</mark>" in shown
    assert "&lt;b&gt;" in shown
    assert "␉␠</mark>\nend" in shown
    assert "\\r</mark>" in shown
    assert not set("\u202e\u202c\u3164\u0301\r") & set(shown.split("title")[-1])
    assert str(exact("echo 'a b'")) == "echo &#39;a b&#39;"


def _pages_with(web: Web, words: str) -> list[str]:
    """Every page of a ticket and of a request in which all texts are `words`."""
    approver, name = web.person("approver"), f"full-of-words-{next(_NUMBERS)}"
    action = Action("shell", {"command": words}, target=words, reasoning=words, expected=words)
    ticket = _worked_on(web, words)
    web.api.ask_approval(
        name,
        action=replace(action, cwd=words, venv=words, passes=(words,)),
        explanation=words,
        # What the gate thinks of it has as many reasons as it has, so it is not asked here.
        subject="nobody-knows",
        ticket=ticket.id,
        **dict.fromkeys(("reads", "writes", "network", "sensitive"), (words,)),
    )
    page = f"/tickets/{ticket.id}"
    typed = words.encode("utf-8", "replace").decode()  # what no browser can send, nobody types
    approver.send(page, f"{page}/moves", move="comment", reason=typed[:4000])
    found = [approver.get(path).text for path in (f"/parts/approvals/{name}", page)]
    return [one.split("<main")[-1].split("</main")[0] for one in found]


def test_text_from_outside_changes_no_element_of_any_page(web: Web) -> None:
    shapes = [_Skeleton(text).found for text in _pages_with(web, "benign")]
    for words in HOSTILE:
        pages = _pages_with(web, words)
        found = [_Skeleton(text).found for text in pages]
        if len(words) < 1000:
            assert found == shapes, ascii(words)
        else:  # of what is long it is said besides that it was shortened
            assert [set(one) for one in found] == [set(one) for one in shapes]
        links = [one for text in pages for one in _Skeleton(text).links]
        assert all(one.startswith("/") for one in links), links
        assert not any(one in text for text in pages for one in "\x1b\u202e\u2066\u200b\x07")
        told = [text for text in pages if "7 * 7" in words and "{{ 7 * 7 }}" not in text]
        assert told == [], "a text is no template"
