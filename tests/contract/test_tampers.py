"""Rows edited by hand, in tables and in the ledger itself: nothing runs because of one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.confirmation import ConfirmationState
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.token import Role, Token
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import OperatorError, PermitError
from operator_sre.chain import chain_hash, digest_of_body
from operator_sre.codec import to_json
from operator_sre.gate import Standing
from operator_sre.ledger import KeyFile
from operator_sre.store import Store, open_store_at
from operator_sre.store.database import Connection
from operator_sre.store.schema import LAYOUT
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules, Transaction
from tests.contract.clock import NOON, HeldClock
from tests.contract.doing import Doer
from tests.contract.samples import confirmation, standing_rule
from tests.contract.stores import URL, Home

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user")
TOKEN = Token("token-1", "grafana", Role.VIEWER, "ada", NOON, NOON + timedelta(days=30))
RESTART = Action.shell("systemctl restart db")
_ADDED_MODE = "INSERT INTO modes VALUES ('other', 'execute', 'ada', '', 1772625600.0)"
Edit = Callable[[Connection], object]


@dataclass(frozen=True, slots=True)
class Bench:
    """A signed store, and a session of somebody who has no key."""

    store: Store
    clock: HeldClock
    where: Any

    @contextmanager
    def tampered(self, edit: Edit) -> Iterator[None]:
        """The store with an edit; afterwards all of it is as it was."""
        database = database_at(self.where)
        with closing(database.session()) as session:
            before = {name: session.execute(LAYOUT.select(name)).fetchall() for name in _TABLES}
            database.begin(session)
            edit(session)
            session.execute("COMMIT")
            try:
                yield
            finally:
                database.begin(session)
                for name, rows in before.items():
                    session.execute(f"DELETE FROM {name}")  # noqa: S608
                    session.executemany(LAYOUT.insert(name), rows)
                session.execute("COMMIT")


_TABLES = (
    *("entries", "checkpoints", "approvals", "permits", "standing_rules", "kill_switch", "modes"),
    *("tokens", "sessions", "confirmations", "commands"),
)


@pytest.fixture
def bench(home: Home, clock: HeldClock) -> Iterator[Bench]:
    url = home.folder / URL
    where = url.read_text() if url.exists() else home.folder / "operator.db"
    store = open_store_at(where, Rules(clock, signer=KeyFile(home.folder / "ledger.key")))
    yield Bench(store, clock, where)
    store.close()


def sql(*statements: str) -> Edit:
    """Statements as somebody types them."""
    return lambda session: [session.execute(one) for one in statements]


def body(table: str, **changes: object) -> Edit:
    """The JSON of every row of a table, changed."""

    def edit(session: Connection) -> None:
        for name, text in session.execute(f"SELECT id, body FROM {table}").fetchall():  # noqa: S608
            new = json.dumps(json.loads(text) | changes)
            session.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (new, name))  # noqa: S608

    return edit


def both(*edits: Edit) -> Edit:
    """One after the other."""
    return lambda session: [one(session) for one in edits]


def forged(clock: HeldClock, *drafts: Draft) -> Edit:
    """Entries with the right hashes at the end of the chain, and the rows that follow from them."""

    def edit(session: Connection) -> None:
        transaction = Transaction(session, Rules(clock))
        for draft in drafts:
            transaction.append(draft)
        transaction.flush()

    return edit


def rewritten(kind: Kind, **changes: object) -> Edit:
    """The payload of the last entry of a kind, with every hash behind it made anew."""

    def edit(session: Connection) -> None:
        rows = session.execute(
            "SELECT seq, body, previous, kind FROM entries ORDER BY seq"
        ).fetchall()
        chosen = max(row[0] for row in rows if row[3] == kind.value)
        previous = b""
        for seq, stored, before, _ in rows:
            previous = previous or bytes(before)
            content = bytes(stored)
            if seq == chosen:
                record = json.loads(content)
                record["payload"] |= changes
                content = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
            digest = digest_of_body(content)
            linked = chain_hash(previous, digest)
            session.execute(
                "UPDATE entries SET body = ?, digest = ?, previous = ?, hash = ? WHERE seq = ?",
                (content, digest, previous, linked, seq),
            )
            previous = linked

    return edit


async def _is_refused(store: Store, permit: Permit) -> bool:
    try:
        await store.intents.begin(permit)
    except PermitError:
        return True
    return False


async def _asked(bench: Bench) -> tuple[Doer, asyncio.Task[Permit | Result]]:
    doer = await Doer.hired(bench.store, bench.clock, mode=Mode.APPROVE)
    asking = asyncio.ensure_future(doer.gate.permit(doer.gate.judge(RESTART), doer.ticket))
    await bench.clock.asleep()
    return doer, asking


def _answer(approval: str, **more: object) -> Draft:
    payload = {"id": approval, "state": "approved", "decided_by": "eve", "reason": "", **more}
    return Draft(Kind.APPROVAL_DECIDED, payload, ticket=1, run="run-1", actor=Actor("eve", "user"))


async def test_no_edit_of_a_pending_request_gives_a_permit(bench: Bench) -> None:
    store = bench.store
    _, asking = await _asked(bench)
    (asked,) = store.approvals.find(states=[ApprovalState.PENDING])
    approved = body("approvals", state="approved", decided_by="ada", version=2)
    decided = body("approvals", decided_at=NOON.isoformat())
    edits: Sequence[Edit] = [
        sql("UPDATE approvals SET state = 'approved'"),
        approved,
        both(approved, decided, sql("UPDATE approvals SET state = 'approved'")),
        body("approvals", needed=0),
        body("approvals", requester={"id": "eve", "type": "user", "agent": ""}),
        body("approvals", expires_at="2099-01-01T00:00:00+00:00"),
        forged(bench.clock, _answer(asked.id)),
        forged(bench.clock, _answer(asked.id, approvers=["ada"])),
        both(forged(bench.clock, _answer(asked.id)), sql("DELETE FROM checkpoints")),
        both(approved, sql("UPDATE approvals SET seq = 1")),
    ]
    for number, edit in enumerate(edits):
        with bench.tampered(edit):
            found = store.approvals.get(asked.id)
            assert found is not None, number
            assert found.state in (ApprovalState.PENDING, ApprovalState.SUPERSEDED), number
            assert store.approvals.find(states=[ApprovalState.APPROVED], run="run-1") == [], number
    with bench.tampered(forged(bench.clock, _answer(asked.id))):
        bench.clock.advance(1.0)
        assert isinstance(await asking, Result), "an answer that nobody signed is none"


async def test_no_edit_brings_an_approval_back(bench: Bench) -> None:
    store = bench.store
    doer, asking = await _asked(bench)
    await doer.answer(ApprovalState.APPROVED, by="ada")
    bench.clock.advance(1.0)
    permit = await asking
    assert isinstance(permit, Permit)
    given = store.approvals.get(permit.approval)
    assert given is not None
    cancelled = ApprovalState.CANCELLED
    await store.approvals.decide(given.id, cancelled, by=ADA, reason="no", version=given.version)
    back = both(
        body("approvals", **json.loads(json.dumps(to_json(given)))),
        sql("UPDATE approvals SET state = 'approved'"),
    )
    edits: Sequence[Edit] = [
        back,
        both(back, sql("UPDATE permits SET used = 0, approval = ''")),
        both(back, sql("UPDATE permits SET version = 0, rule = ''")),
        both(back, rewritten(Kind.APPROVAL_DECIDED, state="approved")),
        both(back, sql("UPDATE entries SET kind = 'observed' WHERE kind = 'approval_decided'")),
        forged(bench.clock, _answer(given.id)),
        both(forged(bench.clock, _answer(given.id)), body("approvals", version=given.version)),
    ]
    for number, edit in enumerate(edits):
        with bench.tampered(edit):
            assert await _is_refused(store, permit), number


async def test_no_edit_of_a_permit_lets_anything_more_run(bench: Bench) -> None:
    store = bench.store
    doer = await Doer.hired(store, bench.clock)
    used = await doer.gate.permit(doer.gate.judge(RESTART), doer.ticket)
    late = await doer.gate.permit(doer.gate.judge(Action.shell("mkdir zz")), doer.ticket)
    assert isinstance(used, Permit)
    assert isinstance(late, Permit)
    intent = await store.intents.begin(used)
    bench.clock.advance(3600.0)
    other = replace(late, action=Action.shell("rm -rf zz"))
    changed = sql(
        f"UPDATE permits SET digest = '{other.action.digest}', expires_at = 4e9"  # noqa: S608
    )
    cases: Sequence[tuple[Permit, Edit]] = [
        (used, sql("UPDATE permits SET used = 0, expires_at = 4e9")),
        (used, sql("UPDATE permits SET used = 0, expires_at = 4e9", "DELETE FROM commands")),
        (late, sql("UPDATE permits SET expires_at = 4e9")),
        (other, changed),
        (replace(other, expires_at=NOON + timedelta(days=9)), changed),
        (late, sql("UPDATE permits SET level = 'safe', expires_at = 4e9")),
        (replace(late, id="of eve"), sql("UPDATE permits SET id = 'of eve' WHERE used = 0")),
    ]
    for number, (permit, edit) in enumerate(cases):
        with bench.tampered(edit):
            assert await _is_refused(store, permit), number
    assert [one.seq for one in store.intents.open()] == [intent.seq]


async def test_no_edit_turns_the_kill_switch_off(bench: Bench) -> None:
    store = bench.store
    doer = await Doer.hired(store, bench.clock)
    permit = await doer.gate.permit(doer.gate.judge(RESTART), doer.ticket)
    assert isinstance(permit, Permit)
    await store.switch.turn_on(by="ada", reason="stop")
    await store.switch.turn_off(by="ada", reason="go")
    await store.switch.turn_on(by="ada", reason="stop again")
    off = sql("UPDATE kill_switch SET is_on = 0")
    as_before = sql("UPDATE kill_switch SET is_on = 0, generation = 2")
    last = "(SELECT max(seq) FROM entries WHERE kind = 'kill_switch_on')"
    emptied = sql(f"UPDATE entries SET body = NULL WHERE seq = {last}")  # noqa: S608
    go = Draft(Kind.KILL_SWITCH_OFF, {"generation": 4, "reason": "go"}, actor=ADA)
    edits: Sequence[Edit] = [
        off,
        as_before,
        sql("DELETE FROM kill_switch"),
        forged(bench.clock, go),
        both(forged(bench.clock, go), sql("DELETE FROM checkpoints")),
        both(as_before, rewritten(Kind.KILL_SWITCH_ON, generation=1)),
        both(as_before, emptied),
        both(sql("DELETE FROM kill_switch"), emptied),
    ]
    for number, edit in enumerate(edits):
        with bench.tampered(edit):
            assert store.switch.state().on, number
            with pytest.raises(PermitError):
                await store.intents.begin(permit)
    with bench.tampered(off):
        await store.switch.turn_off(by="ada", reason="a person means it")
        assert not store.switch.state().on, "whoever may turn it off still can"


async def test_no_edit_raises_a_mode(bench: Bench) -> None:
    store = bench.store
    await store.modes.set("shop", Mode.OBSERVE, by="ada", reason="careful")
    set_mode = Draft(Kind.MODE_SET, {"subject": "shop", "mode": "execute", "reason": ""}, actor=ADA)
    reset = Draft(Kind.MODE_RESET, {"subject": "shop", "reason": ""}, actor=ADA)
    edits: Sequence[Edit] = [
        sql("UPDATE modes SET mode = 'execute'"),
        sql("DELETE FROM modes"),
        forged(bench.clock, set_mode),
        forged(bench.clock, reset),
        both(sql("UPDATE modes SET mode = 'execute'"), rewritten(Kind.MODE_SET, mode="execute")),
    ]
    for number, edit in enumerate(edits):
        with bench.tampered(edit):
            (found,) = store.modes.find("shop")
            assert found.mode is Mode.OBSERVE, number
            assert [one.mode for one in store.modes.find()] == [Mode.OBSERVE], number
    with bench.tampered(sql(_ADDED_MODE)):
        assert [one.mode for one in store.modes.find("other")] == [Mode.OBSERVE]
    await store.modes.set("shop", Mode.EXECUTE, by="ada", reason="meant")
    assert [one.mode for one in store.modes.find("shop")] == [Mode.EXECUTE]
    await store.modes.reset("shop", by="ada", reason="meant")
    assert store.modes.find("shop") == []


async def test_no_edit_makes_a_standing_rule(bench: Bench) -> None:
    store = bench.store
    rule = replace(standing_rule(), target="")
    eves = replace(rule, id="eve")
    await store.standing.add(rule)
    doer = await Doer.hired(store, bench.clock, mode=Mode.APPROVE)
    gate = replace(doer.gate, standing=Standing(store.standing, resolve=lambda path: path))
    permit = await gate.permit(gate.judge(Action.shell("mkdir zz")), doer.ticket)
    assert isinstance(permit, Permit)
    assert permit.rule == rule.id
    await store.standing.revoke(rule.id, by=ADA, reason="no more")

    def insert(seq: int) -> Edit:
        values = ("eve", seq, 0, json.dumps(to_json(eves)))
        statement = "INSERT INTO standing_rules (id, seq, revoked, body) VALUES (?, ?, ?, ?)"
        return lambda session: session.execute(statement, values)

    back = both(
        body("standing_rules", revoked_at=None, revoked_by="", revoked_because=""),
        sql("UPDATE standing_rules SET revoked = 0"),
    )
    edits: Sequence[Edit] = [
        back,
        insert(99),
        insert(1),
        both(sql("DELETE FROM standing_rules"), insert(1)),
        forged(bench.clock, Draft(Kind.RULE_ADDED, {"rule": to_json(eves)}, actor=ADA)),
        both(back, rewritten(Kind.RULE_REVOKED, id="another")),
    ]
    for number, edit in enumerate(edits):
        with bench.tampered(edit):
            assert store.standing.find() == [], number
            with pytest.raises(PermitError):
                await store.intents.begin(permit)


async def test_no_edit_lets_a_token_in_as_more(bench: Bench) -> None:
    store = bench.store
    await store.tokens.add(TOKEN, fingerprint="f")
    await store.tokens.add(replace(TOKEN, id="token-2"), fingerprint="gone")
    await store.tokens.revoke("token-2", by=ADA, reason="lost")
    admin = {"admits": to_json(replace(TOKEN, id="eve", role=Role.ADMIN)), "fingerprint": "e"}
    back = body("tokens", revoked_at=None)
    edits: Sequence[tuple[str, Edit]] = [
        ("f", body("tokens", role="admin")),
        ("f", body("tokens", expires_at="2099-01-01T00:00:00+00:00")),
        ("f", both(body("tokens", role="admin"), rewritten(Kind.TOKEN_CREATED, fingerprint="x"))),
        ("e", sql("UPDATE tokens SET fingerprint = 'e' WHERE fingerprint = 'f'")),
        ("e", forged(bench.clock, Draft(Kind.TOKEN_CREATED, admin, actor=ADA))),
        ("gone", back),
        ("gone", both(back, rewritten(Kind.TOKEN_REVOKED, id="another"))),
    ]
    for number, (fingerprint, edit) in enumerate(edits):
        with bench.tampered(edit):
            found = store.tokens.of(fingerprint)
            assert found is None or found.revoked_at is not None, number
    assert store.tokens.of("f") == TOKEN


async def test_no_edit_settles_a_confirmation_or_lets_an_agent_go(bench: Bench) -> None:
    store = bench.store
    await store.confirmations.request(confirmation())
    await store.sessions.hold("agent-7", score=9, reason="too much")
    yes = {"state": "approved", "decided_by": "ada", "decided_at": NOON.isoformat()}
    decided = Draft(
        Kind.CONFIRMATION_DECIDED,
        {"id": "conf_1", "state": "approved", "decided_by": "eve", "reason": ""},
        actor=ADA,
    )
    approved = sql("UPDATE confirmations SET state = 'approved'")
    for number, edit in enumerate(
        [both(body("confirmations", **yes), approved), forged(bench.clock, decided)]
    ):
        with bench.tampered(edit):
            assert store.confirmations.find_unsettled() == [], number
            (found,) = store.confirmations.find("conf_1")
            assert found.state is ConfirmationState.EXPIRED, number
            with pytest.raises(OperatorError):
                await store.confirmations.settle("conf_1", applied=True, outcome="done")
    gone = Draft(Kind.SESSION_RESET, {"agent": "agent-7", "reason": ""}, actor=ADA)
    for number, edit in enumerate(
        [
            sql("UPDATE sessions SET held = 0"),
            sql("DELETE FROM sessions"),
            forged(bench.clock, gone),
        ]
    ):
        with bench.tampered(edit):
            assert [one.held for one in store.sessions.find("agent-7")] == [True], number


async def test_a_later_signature_does_not_make_a_forged_decision_count(
    bench: Bench, home: Home
) -> None:
    store = bench.store
    await _asked(bench)
    (asked,) = store.approvals.find(states=[ApprovalState.PENDING])
    draft = _answer(asked.id)
    database = database_at(bench.where)
    with closing(database.session()) as session:
        database.begin(session)
        forged(bench.clock, draft)(session)
        # A column that hides what the bytes say, until somebody has signed behind it.
        session.execute("UPDATE entries SET kind = 'observed' WHERE kind = 'approval_decided'")
        session.execute("COMMIT")
    other = open_store_at(
        bench.where, Rules(bench.clock, signer=KeyFile(home.folder / "ledger.key"))
    )
    try:
        await other.modes.set("shop", Mode.OBSERVE, by="ada", reason="a decision of a person")
    finally:
        other.close()
    with closing(database.session()) as session:
        database.begin(session)
        session.execute("UPDATE entries SET kind = 'approval_decided' WHERE kind = 'observed'")
        session.execute("COMMIT")
    found = store.approvals.get(asked.id)
    assert found is not None
    assert found.state is not ApprovalState.APPROVED
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_a_decision_that_was_taken_out_is_missed_at_the_next_start(
    bench: Bench, home: Home
) -> None:
    store = bench.store
    rules = Rules(bench.clock, signer=KeyFile(home.folder / "ledger.key"))
    await store.switch.turn_on(by="ada", reason="stop")
    await store.tokens.add(TOKEN, fingerprint="f")
    last = "(SELECT max(seq) FROM entries WHERE kind = 'kill_switch_on')"
    gone = f"DELETE FROM entries WHERE seq = {last}"  # noqa: S608
    unsigned = f"DELETE FROM checkpoints WHERE seq = {last}"  # noqa: S608
    edits = [
        sql("DELETE FROM kill_switch", gone),
        sql("DELETE FROM kill_switch", unsigned, gone),
        sql("DELETE FROM kill_switch", "UPDATE checkpoints SET seq = 7 WHERE seq = 1", gone),
        both(sql("DELETE FROM kill_switch"), rewritten(Kind.KILL_SWITCH_ON, generation=0)),
    ]
    for number, edit in enumerate(edits):
        with bench.tampered(edit):
            other = open_store_at(bench.where, rules)
            try:
                assert other.switch.state().on, number
                assert other.tokens.of("f") is None, number
            finally:
                other.close()
    other = open_store_at(bench.where, rules)
    assert other.tokens.of("f") == TOKEN
    other.close()
