"""Every promise of the contract has tests that can fail; this is the list, and it is held to be so.

A promise that stands here without a test, or with one that is gone, is a gap.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.every import every

TESTS = Path(__file__).parents[1]
INVARIANTS = "contract_messages/test_invariants.py"
# Promise -> where it is tested, and by the beginning of which names.
PROMISES: dict[str, tuple[tuple[str, str], ...]] = {
    "1 every response carries schema_version": (
        (INVARIANTS, "test_1_"),
        ("faces/api/test_schema.py", "test_every_answer_has_a_version"),
    ),
    "2 every value of an enum is defined": (
        (INVARIANTS, "test_2_every_value"),
        (INVARIANTS, "test_2_what_does_not_fit"),
        ("contract_messages/test_messages.py", "test_what_is_not_defined_is_refused"),
    ),
    "3 exactly one next action, also after a run that did not fail": (
        (INVARIANTS, "test_3_"),
        ("contract_messages/test_accounts.py", "test_every_end_of_a_run_has_one_thing"),
        ("e2e/test_every_category.py", "test_a_path_leads_to_its_category"),
    ),
    "4 after a denial the policy is reviewed": (
        (INVARIANTS, "test_4_"),
        ("e2e/test_denied_or_not.py", "test_what_runs_or_is_asked_about"),
    ),
    "5 a patch needs a yes, is not applied by proposing it, and is clear": (
        (INVARIANTS, "test_5_"),
        ("faces/cli/test_questions.py", "test_a_patch_is_proposed_and_not_applied"),
        ("app/test_patches.py", "test_what_is_not_clear_is_no_patch"),
        ("app/test_patches.py", "test_proposing_changes_nothing_and_a_yes_makes_it"),
    ),
    "6 a confirmation has an id exactly when one is required": ((INVARIANTS, "test_6_"),),
    "7 what is ready has no issues": (
        (INVARIANTS, "test_7_"),
        ("faces/cli/test_questions.py", "test_a_project_that_is_right_is_ready"),
    ),
    "8 a failed run has its category": (
        (INVARIANTS, "test_8_"),
        ("contract_messages/test_accounts.py", "test_a_failed_run_always_has_a_category"),
    ),
    "9 no secret is told, and the sentence around it is": (
        (INVARIANTS, "test_9_"),
        ("app/answers/test_answer_texts.py", "test_no_secret_of_a_run_is_told"),
        ("app/answers/test_answer_texts.py", "test_a_secret_in_a_question_is_not_told_back"),
    ),
    "10 a tool proposes, and only people confirm": (
        ("faces/mcp/test_tools.py", "test_no_tool_decides_anything"),
        ("faces/mcp/test_tools.py", "test_the_face_knows_no_way_to_decide"),
        ("faces/api/test_admission.py", "test_every_route_lets_in_its_roles_and_nobody_else"),
        ("faces/cli/test_confirmations.py", "test_an_agent_can_propose_and_never_confirm"),
    ),
    "11 after a no: mend the code, or ask": (
        (INVARIANTS, "test_11_"),
        ("faces/cli/test_confirmations.py", "test_a_no_says_what_is_left_to_do"),
        ("e2e/test_every_category.py", "test_a_path_leads_to_its_category"),
    ),
    "12 fields of later versions are not lost": ((INVARIANTS, "test_12_"),),
    "denials come from the records of decisions": (
        ("app/answers/test_answers.py", "test_what_the_policy_blocks_fails_a_run"),
        ("contract_messages/test_accounts.py", "test_a_denial_is_what_was_judged"),
    ),
    "what is allowed is never explained as denied": (
        ("e2e/test_denied_or_not.py", "test_what_runs_or_is_asked_about"),
        ("faces/cli/test_questions.py", "test_what_is_allowed_is_never_explained"),
        ("app/answers/test_answers.py", "test_what_was_refused_for_another_reason_is_no_denial"),
    ),
    "every category and next action is reached": (
        ("e2e/test_every_category.py", "test_no_category_and_no_next_action_is_without"),
    ),
    "every reference can be followed": (
        ("e2e/test_golden_evidence.py", "test_every_reference_of_every_golden"),
        ("e2e/test_golden_evidence.py", "test_every_type_of_evidence_is_in"),
        ("faces/cli/test_questions.py", "test_every_answer_is_one_document"),
    ),
    "a yes is random, kept, used once, ends, and is bound to what it is for": (
        ("app/test_confirmations.py", "test_a_yes_is_given_once"),
        ("app/test_confirmations.py", "test_what_came_too_late_is_refused"),
        ("app/test_confirmations.py", "test_an_altered_change_or_ground_is_refused"),
        ("app/test_confirmations.py", "test_a_yes_to_a_command_is_to_that_command_there"),
        ("contract/test_confirmations.py", "test_it_is_asked_once_and_survives"),
    ),
    "a policy is parsed and validated before it is written": (
        ("app/test_patches.py", "test_a_policy_that_changed_meanwhile_is_left_alone"),
        ("app/test_patches.py", "test_hostile_text_never_allows_more"),
    ),
    "an export verifies by itself, and damage is named and kept": (
        ("faces/cli/test_audit.py", "test_a_bundle_verifies_on_another_machine"),
        ("faces/cli/test_audit.py", "test_damage_is_named_recorded_and_stays_named"),
        ("ledger/test_segments.py", "test_nothing_is_dropped"),
        ("ledger/test_verify.py", "test_a_forged_checkpoint_is_named"),
    ),
    "leaks and erasures of redaction are measured": (
        ("ledger/redaction/test_recall.py", "test_overall_at_least_95"),
        ("ledger/redaction/test_ordinary.py", "test_at_most_one_line_in_1000_changes"),
    ),
    "what an answer costs does not grow with the ledger": (
        ("app/answers/test_answer_lookups.py", "test_no_question_about_a_run_walks"),
    ),
}


@cache
def _names(file: str) -> tuple[str, ...]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(node.name for node in tree.body if isinstance(node, kinds))


def test_all_twelve_invariants_are_listed() -> None:
    numbers = [promise.split()[0] for promise in PROMISES]
    assert [one for one in numbers if one.isdigit()] == [str(one) for one in range(1, 13)]


@every(("promise", "file", "name"), [(p, *one) for p, found in PROMISES.items() for one in found])
def test_every_promise_has_its_tests(promise: str, file: str, name: str) -> None:
    assert any(one.startswith(name) for one in _names(file)), f"{promise}: no {name}* in {file}"
