"""The questions of the contract: what happened in a run, why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operator_sre.faces.cli.options import Globals, JsonOption, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.contract.messages import EvidenceRef, Message

__all__ = [
    "explain_denial",
    "explain_failure",
    "next_action",
    "recommend_patch",
    "summarize",
    "timeline",
    "validate",
]

ContractOption = Annotated[
    str,
    typer.Option(
        "--contract", metavar="VERSION", help="Version of the JSON document: 1.0.0 or 1.1.0."
    ),
]
RunArgument = Annotated[str, typer.Argument(help="The run id; see: operator audit list.")]
MaybeRunArgument = Annotated[str, typer.Argument(help="The run id.")]


def validate(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The project directory.")] = ".",
    as_json: JsonOption = False,
    contract: ContractOption = "1.0.0",
) -> None:
    """Check a project and list every problem. Exit 1 if there is one."""
    import os

    from operator_sre.app.answers import validate_project
    from operator_sre.app.wiring import look_at_app
    from operator_sre.config import load_config
    from operator_sre.contract.messages import ValidateAgentProjectRequest

    # Settings that do not come from the project, which may make no sense at all.
    options: Globals = context.obj
    config = load_config(flags={"home": options.home}, environ=os.environ, cwd=Path("/"))
    with look_at_app(config) as app:
        answer = validate_project(app, ValidateAgentProjectRequest(project_dir=folder))
        document = _document_of(app, answer, contract)
    _print_answer(document, as_json=as_json)
    if not as_json:
        ready = "is ready" if document["ready"] else "is not ready"
        runtime = f" ({document['runtime']})" if "runtime" in document else ""
        print_lines([clean(f"{document['project_dir']} {ready}{runtime}.")])
        for issue in answer.issues:
            print_lines([clean(f"  {issue.category}: {issue.message}")])
            print_lines([f"    next: {issue.next_action}"])
            _tell_evidence(issue.evidence_refs, indent="    ")
    raise typer.Exit(0 if answer.ready else 1)


def summarize(
    context: typer.Context,
    run: RunArgument,
    as_json: JsonOption = False,
    contract: ContractOption = "1.0.0",
) -> None:
    """Summarize a run: its outcome, figures and one sentence."""
    from operator_sre.app.answers import summarize_run
    from operator_sre.contract.messages import SummarizeRunRequest

    with open_home(context) as app:
        answer = summarize_run(app, SummarizeRunRequest(run_id=run))
        document = _document_of(app, answer, contract)
    _print_answer(document, as_json=as_json)
    if not as_json:
        keys = ("status", "started_at", "finished_at", "duration_ms", "invocations")
        more = ("policy_denials", "error_category", "exit_code")
        print_lines([clean(document["summary"])])
        print_lines([f"  {key}: {document[key]}" for key in (*keys, *more) if key in document])
        _tell_evidence(answer.evidence_refs)


def explain_failure(
    context: typer.Context,
    run: RunArgument,
    as_json: JsonOption = False,
    contract: ContractOption = "1.0.0",
) -> None:
    """Explain why a run failed, with the evidence and the next step."""
    from operator_sre.app.answers import explain_failure as explained
    from operator_sre.contract.messages import ExplainFailureRequest

    with open_home(context) as app:
        answer = explained(app, ExplainFailureRequest(run_id=run))
        document = _document_of(app, answer, contract)
    _print_answer(document, as_json=as_json)
    if as_json:
        return
    print_lines([clean(f"{answer.error_category}: {answer.root_cause}")])
    for excerpt in answer.redacted_excerpts:
        print_lines([clean(f"  {excerpt.source}:")])
        print_lines([clean(f"    {line}") for line in excerpt.content.splitlines()])
    print_lines([f"next: {answer.next_action}"])
    _tell_evidence(answer.evidence_refs)


def explain_denial(
    context: typer.Context,
    run: MaybeRunArgument = "",
    action: Annotated[str, typer.Option(help="A command line, or a tool that the run used.")] = "",
    as_json: JsonOption = False,
    contract: ContractOption = "1.0.0",
) -> None:
    """Show which rule denied an action, or would deny it. Exit 1 if none does."""
    from operator_sre.app.answers import explain_denial as explained
    from operator_sre.contract.messages import ExplainPolicyDenialRequest

    with open_home(context) as app:
        answer = explained(app, ExplainPolicyDenialRequest(run_id=run, action=action))
        document = _document_of(app, answer, contract)
    _print_answer(document, as_json=as_json)
    if as_json:
        return
    print_lines([clean(f"Denied by {answer.blocking_rule_id}: {answer.denied_action}")])
    print_lines([clean(f"  {answer.rationale}"), f"next: {answer.next_action}"])
    _tell_evidence(answer.evidence_refs)


def recommend_patch(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="What to allow, in plain words.")],
    risk: Annotated[str, typer.Option(help="Set to high to allow broad or private access.")] = "",
    as_json: JsonOption = False,
    contract: ContractOption = "1.0.0",
) -> None:
    """Propose a policy change. Nothing is applied until a person confirms it; exit 4."""
    from operator_sre.app.answers import recommend_patch as recommended
    from operator_sre.contract.documents import from_document
    from operator_sre.contract.messages import SCHEMA_VERSION, RecommendPolicyPatchRequest

    fields: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "request": text}
    request = from_document(
        RecommendPolicyPatchRequest, fields | ({"risk_level": risk} if risk else {})
    )
    with open_home(context) as app:
        answer = run_until_stopped(recommended(app, request))
        document = _document_of(app, answer, contract)
    _print_answer(document, as_json=as_json)
    if not as_json:
        print_lines([clean(line) for line in answer.proposed_patch.splitlines()])
        print_lines(["", clean(f"risk {answer.risk_level}: {answer.rationale}")])
        show = f"operator confirmations show {answer.confirmation.confirmation_id}"
        print_lines([f"next: {answer.next_action}: {show}"])
        _tell_evidence(answer.evidence_refs)
    raise typer.Exit(4)


def timeline(
    context: typer.Context,
    run: RunArgument,
    as_json: JsonOption = False,
    contract: ContractOption = "1.0.0",
) -> None:
    """List everything that happened in a run, oldest first."""
    from operator_sre.app.answers import run_timeline
    from operator_sre.contract.messages import GetRunTimelineRequest

    with open_home(context) as app:
        answer = run_timeline(app, GetRunTimelineRequest(run_id=run))
        document = _document_of(app, answer, contract)
    _print_answer(document, as_json=as_json)
    if not as_json:
        for event in answer.events:
            when = f"{event.timestamp:%H:%M:%S.%f}"[:-3]
            line = f"{event.audit_seq:6}  {when}  {event.event_type:20}  {event.detail}"
            print_lines([clean(line)])


def next_action(
    context: typer.Context,
    run: MaybeRunArgument = "",
    as_json: JsonOption = False,
    contract: ContractOption = "1.0.0",
) -> None:
    """Recommend the next step, for a run or overall."""
    from operator_sre.app.answers import next_action as decided
    from operator_sre.contract.messages import NextActionRequest

    with open_home(context) as app:
        answer = decided(app, NextActionRequest(run_id=run))
        document = _document_of(app, answer, contract)
    _print_answer(document, as_json=as_json)
    if not as_json:
        print_lines([clean(f"{answer.next_action}: {answer.rationale}")])
        _tell_evidence(answer.evidence_refs)


def _document_of(app: App, answer: Message, contract: str) -> dict[str, Any]:
    """The document of an answer, checked, in this version of the contract."""
    from operator_sre.app.answers import document_in
    from operator_sre.contract.editions import edition_of
    from operator_sre.contract.schemas import check_document

    check_document(answer)
    return document_in(app, answer, edition_of(contract))


def _print_answer(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(document)


def _tell_evidence(refs: Iterable[EvidenceRef], *, indent: str = "  ") -> None:
    print_lines([clean(f"{indent}{ref.type} {ref.ref}: {ref.detail}") for ref in refs])
