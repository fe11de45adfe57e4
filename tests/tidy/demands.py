"""What the product was asked for beyond its own promises: each demand with the test that fails
without it.

A demand without its feature names the test that will prove it in `absent`. As soon as that test is
written, the table has to be changed, so that no row is forgotten in either direction.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEMANDS", "Demand"]


@dataclass(frozen=True, slots=True)
class Demand:
    """One demand, the tests that prove it (`file::test`), and those that are not written yet."""

    text: str
    tests: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


DEMANDS = (
    Demand(
        "In a rig or a disposable box, what is not BLOCKED runs without approval, confined",
        tests=(
            "tests/gate/test_boundary.py::test_in_a_boundary_only_what_is_blocked_is_refused",
            "tests/executor/test_boundary.py::test_no_hostile_program_leaves_the_boundary",
        ),
    ),
    Demand(
        "A script that changes nothing and reaches nowhere is a check and needs no diagnosis",
        tests=(
            "tests/executor/tools/test_scripts.py::test_a_script_that_reads_needs_no_diagnosis",
        ),
    ),
    Demand(
        "Evals compare typed tools only, shell only, and both",
        tests=("tests/evals/test_tool_sets.py::test_a_variant_offers_only_its_tools",),
    ),
    Demand(
        "The agent image has the usual tools as an extra layer",
        tests=("tests/deploy/test_kitchen.py::test_the_layer_has_the_tools",),
    ),
    Demand(
        "The TiKV demo has traffic and texts that fit TiKV, from end to end",
        tests=(
            "tests/e2e/test_tikv_demo.py::test_the_tikv_demo_repairs_a_killed_store",
            "tests/subjects/tikv/test_tikv_load.py"
            "::test_the_rig_has_traffic_and_the_demo_words_for_every_chapter",
        ),
    ),
    Demand(
        "The thresholds of TiKV are those of its operators, and settings",
        tests=("tests/subjects/tikv/test_thresholds.py::test_each_threshold_is_a_setting",),
    ),
    Demand(
        "A YCSB load of half reads and half writes can be chosen",
        tests=("tests/lab/test_workloads.py::test_half_of_the_operations_are_reads",),
    ),
    Demand(
        "Changing a rate limit is a high risk",
        tests=("tests/subjects/ratelimiter/test_risks.py::test_a_limit_is_a_high_risk",),
    ),
    Demand(
        "`--chaos` names a fault wherever `--fault` does",
        tests=("tests/faces/cli/test_chaos.py::test_chaos_is_another_name_of_fault",),
    ),
    Demand(
        "An action carries the urgency that its proposer gave, and approvers see it",
        tests=(
            "tests/protocols/test_action.py"
            "::test_the_digest_does_not_change_with_the_words_around_it",
        ),
    ),
    Demand(
        "A logged message has a level",
        tests=("tests/executor/tools/test_log_message.py::test_a_message_has_a_level",),
    ),
    Demand(
        "The harness does not import the demo",
        tests=("tests/evals/test_layers.py::test_the_harness_does_not_import_the_demo",),
    ),
    Demand(
        "`kill-switch on --changes-only` cancels pending work and sets every subject to observe",
        tests=("tests/app/test_restraints.py::test_changes_alone_are_stopped_while_checks_go_on",),
    ),
    Demand(
        "Installing a pinned package into a virtual environment is a known risk",
        tests=("tests/gate/test_pip.py::test_a_pinned_package_is_a_small_risk",),
    ),
    Demand(
        "The default timeout of a command is 300 s and a setting",
        tests=("tests/app/test_command_timeout.py::test_the_default_timeout_is_a_setting",),
    ),
    Demand(
        "`explain-failure` and `next-action` tell the truth in every state of a run",
        tests=("tests/app/answers/test_run_states.py::test_every_state_of_a_run_has_its_answer",),
    ),
    Demand(
        "Contract 1.1.0 is spoken beside 1.0.0, to those who ask for it",
        tests=("tests/contract_messages/test_editions.py::test_an_edition_is_negotiated",),
    ),
    Demand(
        "A briefing holds 30 minutes of logs, bounded by tokens",
        tests=("tests/models/test_log_window.py::test_a_briefing_holds_half_an_hour_of_logs",),
    ),
    Demand(
        "Every risk level has a chain of approvers, asked one after the other",
        tests=("tests/notify/test_chain.py::test_the_next_approver_is_asked_after_minutes",),
    ),
    Demand(
        "AWS is operated through typed tools, with reads SAFE and changes approved",
        tests=(
            "tests/subjects/aws/test_aws_tools.py::test_an_instance_is_rebooted_after_approval",
            "tests/subjects/aws/test_aws_policy.py"
            "::test_with_the_documented_policy_everything_works",
        ),
    ),
    Demand(
        "`grants` in policy.yaml is documented",
        tests=("tests/app/test_grants.py::test_grants_are_documented",),
    ),
    Demand(
        "Tools that need systemd say `unsupported` where there is none",
        tests=("tests/executor/tools/test_systemd.py::test_without_systemd_it_is_unsupported",),
    ),
)
