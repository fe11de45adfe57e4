"""How a command ended is told in sentences, and nothing is said of what went well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action, Left, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Process
from operator_sre.app.commands import Execution, ending_of
from operator_sre.gate import Policy, judge

OK = Result(Outcome.RAN, 0)
NOT_FOUND = FailureCategory.NOT_FOUND


def _left(pid: int, *, ended: bool = False) -> Left:
    return Left(Process(pid, 1.0), "sleep", ended)


def _said(result: Result, *, here: str = "") -> tuple[str, ...]:
    verdict = judge(replace(Action.shell("x"), timeout_s=1.5), Policy())
    return ending_of(Execution(verdict, result, "", 9, 0, 7), here=here)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (OK, ()),
        (replace(OK, exit_code=3), ("The command failed: exit code 3.",)),
        (
            replace(OK, exit_code=127, category=NOT_FOUND),
            ("The command failed: command not found (127) [not_found].",),
        ),
        (
            replace(OK, outcome=Outcome.TIMED_OUT),
            ("The command was killed: it exceeded its timeout of 1.5 s.",),
        ),
        (
            replace(OK, outcome=Outcome.CANCELLED),
            ("The command was stopped from outside. See: operator kill-switch status",),
        ),
        (
            replace(OK, outcome=Outcome.UNKNOWN, exit_code=None),
            ("The result is unknown. Check the system before you run the command again.",),
        ),
        (replace(OK, left=(_left(5),)), ("Still running after the command: sleep (pid 5).",)),
        (
            replace(OK, left=(_left(5, ended=True), _left(6), _left(7))),
            (
                "Still running after the command: sleep (pid 6), sleep (pid 7).",
                "Killed after the command: sleep (pid 5).",
            ),
        ),
    ],
)
def test_every_end_has_its_sentence(result: Result, said: tuple[str, ...]) -> None:
    assert _said(result) == said


def test_what_was_cut_is_told_with_its_size_and_where_it_lies() -> None:
    cut = replace(OK, truncated=True, stdout_bytes=104_857_600, stderr_bytes=999)
    assert _said(cut, here=" --home h") == (
        "The ledger keeps the beginning and the end of 105 MB of stdout and 999 bytes of stderr."
        " Full output, for a day: operator history show 7 --output --home h",
    )
    assert "of the output." in _said(replace(OK, truncated=True))[0]


def test_not_everybody_who_is_left_is_named() -> None:
    (said,) = _said(replace(OK, left=tuple(map(_left, range(500)))))
    assert said.endswith("sleep (pid 9) and 490 more.")
