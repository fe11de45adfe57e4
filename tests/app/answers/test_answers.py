"""Answers about runs that really happened; tests/e2e/paths.py has a way to every category."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.run import Answer, Escalate, Finish
from operator_protocols.errors import UsageError
from operator_sre.app.answers import (
    explain_denial,
    explain_failure,
    next_action,
    projects,
    recommend_patch,
    run_timeline,
    summarize_run,
    validate_project,
)
from operator_sre.app.answers.denials import NotDeniedError
from operator_sre.app.answers.projects import Project, issue
from operator_sre.app.restraints import switch_on
from operator_sre.contract.accounts import NotFailedError
from operator_sre.contract.messages import (
    EvidenceType,
    ExplainFailureRequest,
    ExplainFailureResponse,
    ExplainPolicyDenialRequest,
    GetRunTimelineRequest,
    NextActionRequest,
    NextActionResponse,
    RecommendPolicyPatchRequest,
    RunStatus,
    SummarizeRunRequest,
    SummarizeRunResponse,
    TimelineEvent,
    ValidateAgentProjectRequest,
    ValidationIssue,
)
from operator_sre.contract.schemas import check_document
from tests.app.answering import FOUND, Shopkeeper, shopkeeper
from tests.contract.workshop import Endless

pytestmark = pytest.mark.asyncio

Open = Callable[..., AbstractContextManager[Shopkeeper]]
GIVE_UP = Answer("enough", (Escalate("I cannot go on."),))
LOOK = Answer("look", (Action.shell("true"),))
SCRIPTS = "version: 1\napproval: {critical: auto, high: auto}\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Call it with the turns of a mind."""

    def make(*turns: Answer, **settings: str) -> AbstractContextManager[Shopkeeper]:
        return shopkeeper(tmp_path, monkeypatch, *turns, **settings)

    return make


def _summary(keeper: Shopkeeper, run: str) -> SummarizeRunResponse:
    found = summarize_run(keeper.app, SummarizeRunRequest(run_id=run))
    check_document(found)
    return found


def _failure(keeper: Shopkeeper, run: str) -> ExplainFailureResponse:
    found = explain_failure(keeper.app, ExplainFailureRequest(run_id=run))
    check_document(found)
    return found


def _next(keeper: Shopkeeper, run: str = "") -> NextActionResponse:
    found = next_action(keeper.app, NextActionRequest(run_id=run))
    check_document(found)
    return found


def _failed(keeper: Shopkeeper, run: str, category: ErrorCategory, action: NextAction) -> None:
    """The ledger, the summary, the explanation and the advice say the same."""
    (over,) = [one for one in _entries(keeper, run) if one.kind is Kind.RUN_FINISHED]
    assert (over.payload["state"], over.payload["category"]) == ("failed", category)
    summary, failure = _summary(keeper, run), _failure(keeper, run)
    assert (summary.status, summary.error_category) == (RunStatus.FAILED, category)
    assert summary.exit_code == 1
    assert (failure.error_category, failure.next_action) == (category, action)
    assert str(over.seq) in [one.ref for one in failure.evidence_refs]
    assert _next(keeper, run).next_action is action


def _entries(keeper: Shopkeeper, run: str) -> list[Entry]:
    return list(keeper.app.store.entries.after(0, limit=999, run=run))


async def test_what_the_policy_blocks_fails_a_run_and_is_explained_by_its_rule(shop: Open) -> None:
    turn = Answer("act", (FOUND, Action.shell("rm -rf /"), Escalate("It is forbidden.")))
    with shop(turn) as keeper:
        run = await keeper.carry()
        _failed(keeper, run, ErrorCategory.POLICY_DENIED, NextAction.REVIEW_POLICY_PATCH)
        assert _summary(keeper, run).policy_denials == 1
        denial = explain_denial(keeper.app, ExplainPolicyDenialRequest(run_id=run))
        assert (denial.denied_action, denial.blocking_rule_id) == ("rm -rf /", "blocked[0]")
        (verdict,) = [one for one in _entries(keeper, run) if one.kind is Kind.VERDICT]
        assert denial.policy_digest == verdict.payload["policy_digest"]
        assert denial.policy_digest.startswith("sha256:")
        (refused,) = [one for one in _entries(keeper, run) if one.kind is Kind.REFUSED]
        seqs = [one.ref for one in denial.evidence_refs if one.type is EvidenceType.AUDIT_SEQ]
        assert {str(refused.seq), str(verdict.seq)} <= set(seqs)
        types = [event.event_type for event in _timeline(keeper, run)]
        assert types[0] == "ticket_claimed"
        assert {"run_start", "invoke", "invoke_complete", "policy_denied", "run_failed"} <= {*types}


def _timeline(keeper: Shopkeeper, run: str) -> tuple[TimelineEvent, ...]:
    found = run_timeline(keeper.app, GetRunTimelineRequest(run_id=run))
    check_document(found)
    return found.events


async def test_a_budget_that_is_used_up_wants_a_larger_one(shop: Open) -> None:
    policy = "version: 1\nbudgets: {turns_max: 1}\n"
    with shop(LOOK, LOOK, policy=policy) as keeper:
        run = await keeper.carry()
        _failed(keeper, run, ErrorCategory.BUDGET_EXCEEDED, NextAction.INCREASE_BUDGET)
        assert _summary(keeper, run).invocations == 1


async def test_a_model_whose_key_is_not_set_is_spoken_for_and_that_is_told(shop: Open) -> None:
    toml = """
[models.far]
provider = "openai-compatible"
model = "m"
base_url = "http://127.0.0.1:9/v1"
key_env = "A_KEY_THAT_NOBODY_SETS"
"""
    with shop(toml=toml, model="far") as keeper:
        engine = keeper.app.engine()
        run = await keeper.carry(engine)
        assert _summary(keeper, run).status is RunStatus.COMPLETED
        assert "A_KEY_THAT_NOBODY_SETS" in str(_timeline(keeper, run))


async def test_a_run_that_is_proven_is_kept_for_review(shop: Open) -> None:
    with shop(LOOK, Answer("over", (Finish("It came back."),))) as keeper:
        await keeper.break_one()
        keeper.down.clear()
        assert await keeper.app.engine().work_once()
        run = keeper.newest()
        assert _summary(keeper, run).status is RunStatus.COMPLETED
        assert _next(keeper, run).next_action is NextAction.EXPORT_AUDIT
        with pytest.raises(NotFailedError, match="did not fail"):
            _failure(keeper, run)


async def test_what_is_escalated_in_order_is_for_a_person(shop: Open) -> None:
    with shop(GIVE_UP) as keeper:
        run = await keeper.carry()
        summary = _summary(keeper, run)
        assert (summary.status, summary.policy_denials) == (RunStatus.COMPLETED, 0)
        assert _next(keeper, run).next_action is NextAction.ASK_USER
        with pytest.raises(NotDeniedError, match="Nothing was denied"):
            explain_denial(keeper.app, ExplainPolicyDenialRequest(run_id=run))


async def test_what_is_only_proposed_is_no_failure_but_a_denial(shop: Open) -> None:
    turn = Answer("act", (FOUND, Action.shell("systemctl restart x"), Escalate("Proposed.")))
    with shop(turn, mode="observe") as keeper:
        run = await keeper.carry()
        summary = _summary(keeper, run)
        assert (summary.status, summary.policy_denials) == (RunStatus.COMPLETED, 1)
        assert _next(keeper, run).next_action is NextAction.REVIEW_POLICY_PATCH
        denial = explain_denial(keeper.app, ExplainPolicyDenialRequest(run_id=run))
        assert "observe" in denial.rationale
        assert denial.blocking_rule_id.startswith("review[")


async def test_what_was_refused_for_another_reason_is_no_denial(shop: Open) -> None:
    hasty = Answer("act", (Action.shell("systemctl restart x"),))
    with shop(hasty, GIVE_UP) as keeper:
        run = await keeper.carry()
        assert any(one.kind is Kind.REFUSED for one in _entries(keeper, run))
        assert _summary(keeper, run).policy_denials == 0


async def test_a_run_that_the_kill_switch_holds_is_stopped(shop: Open) -> None:
    with shop() as keeper:
        await keeper.break_one()
        engine = keeper.app.engine()
        mind = Endless()
        engine = replace(engine, pipeline=replace(engine.pipeline, model=mind))
        work = asyncio.ensure_future(engine.work_once())
        await mind.begun.wait()
        run = keeper.newest()
        assert _summary(keeper, run).status is RunStatus.RUNNING
        await switch_on(keeper.app, reason="enough")
        await work
        summary = _summary(keeper, run)
        assert summary.status is RunStatus.STOPPED
        assert "enough" in summary.summary
        assert _next(keeper, run).next_action is NextAction.RERUN


async def test_questions_are_answered_for_any_face(shop: Open) -> None:
    with shop(GIVE_UP) as keeper:
        folder = str(keeper.app.config.home.parent)
        project = validate_project(keeper.app, ValidateAgentProjectRequest(project_dir=folder))
        assert project.project_dir == folder
        asked = RecommendPolicyPatchRequest(request="allow host api.example.com")
        before = (keeper.app.config.home.parent / "policy.yaml").read_bytes()
        patch = await recommend_patch(keeper.app, asked)
        check_document(patch)
        assert (keeper.app.config.home.parent / "policy.yaml").read_bytes() == before
        waiting = _next(keeper)
        assert waiting.confirmation == patch.confirmation
        with pytest.raises(UsageError):
            await recommend_patch(keeper.app, RecommendPolicyPatchRequest(request=" "))


async def test_a_check_that_is_added_is_asked(shop: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(project: Project) -> Iterator[ValidationIssue]:
        yield issue(UsageError(f"{project.folder.name} is bare."), "operator health")

    with shop() as keeper:
        monkeypatch.setattr(projects, "CHECKS", (*projects.CHECKS, bare))
        asked = ValidateAgentProjectRequest(project_dir=str(keeper.app.config.home.parent))
        found = validate_project(keeper.app, asked)
        assert "is bare." in found.issues[-1].message
        assert not found.ready
