"""Who may say yes to what, how often, until when, and what is left of it when somebody dies."""

from __future__ import annotations

import asyncio
import io
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import typer

from operator_protocols.domain.action import Action
from operator_protocols.domain.confirmation import Boundary, Confirmation, ConfirmationState
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.errors import AuthorityError, ConfigError, ConflictError, NotFoundError
from operator_sre.app import patches, persons
from operator_sre.app.confirmations import (
    CROSSINGS,
    Asked,
    Crossing,
    Effect,
    approve,
    cross,
    crossing_of,
    decline,
    decline_own,
    find,
    follow_confirmations,
    get,
    record_applied,
    request,
    requirement,
    sweep,
    use,
)
from operator_sre.app.listeners import command_asked, listener_asked
from operator_sre.app.patches import propose
from operator_sre.app.restraints import execute_asked, set_modes, show_modes
from operator_sre.app.service import monitor
from operator_sre.app.wiring import App
from operator_sre.contract.messages import RiskLevel
from operator_sre.faces.cli.consent import cross_boundary
from tests.app.crossings import ADA, APPROVED, BOB, LISTENER, entries, refusals, timed
from tests.app.home import SUBJECTS, opened
from tests.contract.clock import HeldClock
from tests.processes.waiting import eventually


@pytest.mark.parametrize("own", ["1", "0"])
def test_a_no_to_ones_own_question_is_a_decision_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    with opened(tmp_path, SUBJECTS, self_approval=own) as app:
        asked = execute_asked(app, Mode.EXECUTE, ["shop"], reason="night")
        assert asked is not None
        keyboard = io.StringIO("n\n")
        monkeypatch.setattr(keyboard, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", keyboard)
        with pytest.raises(typer.Abort):
            cross_boundary(app, asked, yes=False, propose=False, as_json=False)
        (one,) = find(app)
        me = persons.signed_in()
        assert (one.state, one.decided_by, one.boundary) == ("declined", me, Boundary.MODE_EXECUTE)
        assert entries(app, Kind.CONFIRMATION_DECIDED)[-1].actor == Actor(me, "user")
        assert show_modes(app)[0].mode is Mode.OBSERVE
        with pytest.raises((ConflictError, AuthorityError)):
            asyncio.run(approve(app, one.id))
        assert asyncio.run(decline_own(app, asked)).state is ConfirmationState.DECLINED
        done = asyncio.run(record_applied(app, asked, why="it burnt"))
        assert (done.state, done.applied, "it burnt" in done.reason) == ("approved", True, True)


def test_a_yes_is_given_once_and_the_second_is_refused_on_record(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        asked = execute_asked(app, Mode.EXECUTE, ["shop"], reason="night")
        assert asked is not None
        one = asyncio.run(request(app, asked, by=Actor("ada", "agent", "mcp")))
        assert one.id.startswith("conf_")
        assert len(one.id) >= 37
        assert (one.expires_at - one.requested_at).total_seconds() == 300
        assert show_modes(app)[0].mode is Mode.OBSERVE
        done = asyncio.run(approve(app, one.id, BOB))
        assert (done.applied, done.decided_by) == (True, "bob")
        assert show_modes(app)[0].mode is Mode.EXECUTE
        for answer in (approve, decline):
            with pytest.raises(ConflictError, match="already approved"):
                asyncio.run(answer(app, one.id, BOB))
        with pytest.raises(NotFoundError):
            asyncio.run(approve(app, "conf_guess", BOB))
        assert len(entries(app, Kind.MODE_SET)) == 1
        assert len(refusals(app)) == 3
        assert get(app, one.id) == done
        assert list(find(app)) == [done]
        assert list(find(app, pending_only=True)) == []


def test_only_people_who_may_say_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.yaml").write_text(
        "version: 1\nroles: {ada: admin, bob: approver, eve: viewer}\n"
    )
    with opened(tmp_path, SUBJECTS) as app:
        asked = execute_asked(app, Mode.EXECUTE, ["shop"], reason="")
        assert asked is not None
        one = asyncio.run(request(app, asked))
        for by in (Actor("ada", "agent", "mcp"), Actor("eve", "user"), BOB, Actor("x", "system")):
            with pytest.raises(AuthorityError) as refused:
                asyncio.run(approve(app, one.id, by))
            assert refused.value.exit_code == 3
        with monkeypatch.context() as inside:
            inside.setenv(app.surroundings.mark, "1")
            with pytest.raises(AuthorityError, match="agent started this process"):
                asyncio.run(approve(app, one.id))
        with pytest.raises(AuthorityError):
            asyncio.run(decline(app, one.id, Actor("eve", "user")))
        assert len(refusals(app)) == 6
        assert get(app, one.id).state is ConfirmationState.PENDING
        with pytest.raises(AuthorityError):
            asyncio.run(approve(app, one.id, Actor("ada", "user"), role="approver"))
        with pytest.raises(AuthorityError):  # a token is no more than whoever it stands for
            asyncio.run(approve(app, one.id, BOB, role="admin"))
        asyncio.run(approve(app, one.id, Actor("ada", "user"), role="admin"))
        handed = asyncio.run(request(app, LISTENER))
        with pytest.raises(AuthorityError, match="open a listener"):
            asyncio.run(approve(app, handed.id, BOB))
        assert asyncio.run(approve(app, handed.id, Actor("ada", "user"))).open


def test_nobody_confirms_their_own_where_that_is_forbidden(tmp_path: Path) -> None:
    with opened(tmp_path, f"self_approval = 0\n{SUBJECTS}") as app:
        asked = execute_asked(app, Mode.EXECUTE, ["shop"], reason="")
        assert asked is not None
        one = asyncio.run(cross(app, asked, sure=True))
        assert one.state is ConfirmationState.PENDING
        with pytest.raises(AuthorityError, match="may not confirm"):
            asyncio.run(approve(app, one.id))
        assert asyncio.run(approve(app, one.id, BOB)).applied


def test_what_came_too_late_is_refused_and_swept(tmp_path: Path) -> None:
    with timed(tmp_path, SUBJECTS) as (app, clock):
        # The store has a clock of its own, so that this is asked for in the past.
        clock.advance(-301.0)
        late, other = (asyncio.run(request(app, LISTENER)) for _ in range(2))
        with pytest.raises(ConflictError, match="expired"):
            asyncio.run(approve(app, late.id, BOB))
        clock.advance(301.0)
        (swept,) = asyncio.run(sweep(app))
        assert (swept.id, swept.state) == (other.id, ConfirmationState.EXPIRED)
        assert asyncio.run(sweep(app)) == []
        decided = entries(app, Kind.CONFIRMATION_DECIDED)
        assert [one.payload["state"] for one in decided] == ["expired", "expired"]


def test_an_altered_change_or_ground_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        asked = execute_asked(app, Mode.EXECUTE, ["shop"], reason="")
        assert asked is not None
        seen, moved = (asyncio.run(request(app, asked)) for _ in range(2))
        with pytest.raises(ConflictError, match="differs from"):
            asyncio.run(approve(app, seen.id, BOB, digest="sha256:other"))
        asyncio.run(set_modes(app, Mode.APPROVE, ["shop"], reason=""))
        with pytest.raises(ConflictError, match="mode has changed"):
            asyncio.run(approve(app, moved.id, BOB))
        assert show_modes(app)[0].mode is Mode.APPROVE
        assert {one.state for one in find(app)} == {ConfirmationState.EXPIRED}


def test_a_yes_is_used_up_for_exactly_what_it_is_for(tmp_path: Path) -> None:
    with timed(tmp_path) as (app, clock):
        one = asyncio.run(cross(app, LISTENER, sure=False))
        assert one.state is ConfirmationState.PENDING
        with pytest.raises(AuthorityError, match="pending"):
            asyncio.run(use(app, one.id, LISTENER))
        asyncio.run(approve(app, one.id, BOB))
        other = replace(LISTENER, change={"bind": "203.0.113.7", "port": 22})
        for wrong in (other, replace(LISTENER, boundary=Boundary.EGRESS)):
            with pytest.raises(AuthorityError, match="another change"):
                asyncio.run(use(app, one.id, wrong))
        with pytest.raises(AuthorityError, match="basis of"):
            asyncio.run(use(app, one.id, replace(LISTENER, bound={"policy": "x"})))
        assert asyncio.run(cross(app, LISTENER, sure=False, given=one.id)).outcome == "used"
        with pytest.raises(ConflictError, match="already used"):
            asyncio.run(use(app, one.id, LISTENER))
        assert asyncio.run(cross(app, LISTENER, sure=True)).outcome == "used"
        late = asyncio.run(request(app, LISTENER))
        asyncio.run(approve(app, late.id, BOB))
        clock.advance(400.0)  # the store has a clock of its own, and the machine may be slow
        with pytest.raises(AuthorityError, match="in time"):
            asyncio.run(use(app, late.id, LISTENER))
        (swept,) = asyncio.run(sweep(app))
        assert (swept.id, swept.applied) == (late.id, False)


def test_a_yes_to_a_command_is_to_that_command_there(tmp_path: Path) -> None:
    def asked(line: str, cwd: str = "/srv", target: str = "node-1", policy: str = "p") -> Asked:
        action = replace(Action.shell(line), cwd=cwd)
        return command_asked(
            action, target=target, identity=f"{target}/7", policy=policy, rationale="It deletes."
        )

    with opened(tmp_path) as app:
        one = asyncio.run(request(app, asked("rm -r old")))
        asyncio.run(approve(app, one.id, BOB))
        others = [
            asked("rm -r new"),
            asked("rm -r old", cwd="/"),
            asked("rm -r old", target="node-2"),
            asked("rm -r old", policy="q"),
            listener_asked("the API", bind="203.0.113.7", port=8440, tls=True),
        ]
        for other in others:
            with pytest.raises(AuthorityError):
                asyncio.run(use(app, one.id, other))
        assert asyncio.run(use(app, one.id, asked("rm -r old"))).applied
        assert len(refusals(app)) == len(others)


def test_what_a_program_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        one = asyncio.run(request(app, replace(LISTENER, risk=Risk.CRITICAL)))
        told = requirement(one)
        assert (told.requires_confirmation, told.confirmation_id) == (True, one.id)
        assert told.risk_level is RiskLevel.HIGH
        assert told.evidence_refs[0].ref == f"operator confirmations show {one.id}"
        no = requirement(asyncio.run(decline(app, one.id, BOB, reason="no")))
        assert (no.requires_confirmation, no.confirmation_id) == (False, "")


def test_no_secret_is_kept_of_what_was_asked(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with opened(tmp_path) as app:
        asked = replace(LISTENER, change={"why": secret}, rationale=f"password={secret}")
        one = asyncio.run(request(app, asked))
        assert secret not in repr(one)
        assert asyncio.run(approve(app, one.id, BOB)).open
        assert asyncio.run(use(app, one.id, asked)).outcome == "used"


def test_every_boundary_that_is_crossed_by_us_has_a_way(tmp_path: Path) -> None:
    for boundary in Boundary:
        found = crossing_of(boundary)
        assert isinstance(found, Crossing)
        theirs = (Boundary.EXPOSED_LISTENER, Boundary.DIRECT_LEASE)
        ours = boundary in CROSSINGS and boundary not in theirs
        assert bool(found.effect or found.apply) is ours
    assert Effect().drafts == ()


def test_time_is_recorded_by_whoever_watches(tmp_path: Path) -> None:
    """Nobody has to look for what expired to be on record; and one odd case hinders no other."""

    def unreadable(app: App, one: Confirmation) -> bool | None:
        raise ConfigError("The file cannot be read.")

    async def watch(app: App) -> None:
        watching = asyncio.ensure_future(monitor(app, (), every=True))
        await eventually(lambda: not any(one.open for one in find(app)))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    with opened(tmp_path, SUBJECTS) as app, pytest.MonkeyPatch.context() as patch:
        broken = asyncio.run(propose(app, "raise turns to 60")).confirmation
        asyncio.run(app.store.confirmations.decide(broken.id, APPROVED, by=ADA, reason=""))
        asyncio.run(request(app, LISTENER))
        later = replace(app, clock=HeldClock(app.clock.now() + timedelta(hours=1)))
        patch.setattr(patches, "CROSSING", replace(patches.CROSSING, made=unreadable))
        asyncio.run(watch(later))
        odd, over = find(app)
        assert (odd.applied, over.state) == (False, ConfirmationState.EXPIRED)
        assert "unknown whether" in odd.outcome
        assert follow_confirmations.__doc__


def _die(*words: object) -> None:
    os._exit(9)


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_whoever_dies_while_applying_leaves_a_clear_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """The yes is on record, and the file is either the old or the new one, never in between."""
    real = patches._replace_file

    def writes_and_dies(file: Path, text: str) -> None:
        if written:
            real(file, text)
        _die()

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(patches, "_replace_file", writes_and_dies)
        with opened(tmp_path) as app:
            found = asyncio.run(propose(app, "raise turns to 60"))
            asyncio.run(approve(app, found.confirmation.id, BOB))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.setattr(patches, "CROSSING", replace(patches.CROSSING, patience_s=0.0))
    with opened(tmp_path) as app:
        (left,) = find(app)
        assert left.open
        with pytest.raises(ConflictError):
            asyncio.run(approve(app, left.id, BOB))
        (settled,) = find(app)
        assert settled.applied is written
        assert settled.outcome.startswith("applied" if written else "approved, not applied")
        assert (tmp_path / "policy.yaml").exists() is written
        assert list(tmp_path.glob(".policy*")) == []


def test_what_cannot_be_written_leaves_the_file_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\n")
    with opened(tmp_path) as app:
        found = asyncio.run(propose(app, "raise turns to 60"))

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", full)
            with pytest.raises(ConfigError, match="is unchanged"):
                asyncio.run(approve(app, found.confirmation.id, BOB))
        assert policy.read_text() == "version: 1\n"
        assert sorted(one.name for one in tmp_path.iterdir()) == [
            "home",
            "operator.toml",
            "policy.yaml",
        ]
        (settled,) = find(app)
        assert (settled.applied, "not applied" in settled.outcome) == (False, True)
        assert persons.signed_in()


def test_of_two_people_in_two_processes_one_wins(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        found = asyncio.run(propose(app, "raise turns to 60"))
    children = []
    for by in (ADA, BOB):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with opened(tmp_path) as app:
                    asyncio.run(approve(app, found.confirmation.id, by))
                code = 0
            except ConflictError:
                code = 7
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(codes) == [0, 7]
    with opened(tmp_path) as app:
        assert len(entries(app, Kind.POLICY_CHANGED)) == 1
        assert len(refusals(app)) == 1
        assert (tmp_path / "policy.yaml").read_text().count("turns_max") == 1


def test_time_is_what_the_clock_says(tmp_path: Path) -> None:
    with timed(tmp_path) as (app, clock):
        one = asyncio.run(request(app, LISTENER))
        clock.advance(299.0)
        assert list(find(app, pending_only=True)) == [one]
        clock.advance(1.0)
        assert list(find(app, pending_only=True)) == []
        assert one.expires_at - one.requested_at == timedelta(minutes=5)
