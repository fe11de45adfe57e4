"""Secrets are taken out of everything that goes to a model, before anything is shortened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.run import Ask, Budget, Spent
from operator_sre.models import summaries
from operator_sre.models.fence import EDGE_CHARS, SEARCHED_CHARS_MAX, redact_whole
from operator_sre.models.prompt import conversation
from operator_sre.models.summaries import ModelSummariser, RuleSummariser
from tests.models.world import briefing

SECRET = "kV9xQ2mTz7RbL4wNpY8s"


def redact(text: str) -> str:
    """Only a whole secret is recognised, as with real ones."""
    return text.replace(SECRET, "[secret]")


def test_what_people_wrote_down_of_a_system_is_told_without_secrets() -> None:
    cause = Cause("leak", f"The password {SECRET} is known.", 0.1)
    told = replace(briefing(), notes=f"Sign in with {SECRET}.", causes=(cause,))
    found = conversation(Ask(told, (), Budget()), redact=redact)
    assert SECRET not in found.opening
    assert "Sign in with [secret]." in found.opening
    assert "The password [secret] is known." in found.opening


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5, 1.0, 2.0])
def test_no_part_of_a_secret_is_left_where_notes_are_shortened(share: float) -> None:
    notes = SECRET * round(4_000 * share)
    told = replace(briefing(), notes=notes)
    found = conversation(Ask(told, (), Budget()), redact=redact, chars_max=20_000).opening
    assert not any(SECRET[at : at + 8] in found for at in range(len(SECRET) - 8))


@pytest.mark.asyncio
@pytest.mark.parametrize("before", range(0, len(SECRET) + 1, 4))
async def test_a_secret_across_the_cut_of_a_summary_is_recognised(before: int) -> None:
    blanks = " " * (summaries.SOURCE_CHARS_MAX - before)
    text = f"{blanks}{SECRET} opens the door."
    by_rule = RuleSummariser(redact=redact)
    for what in (text, Result(Outcome.RAN, 0, stdout=text), Result(Outcome.RAN, 1, stderr=text)):
        told = (await by_rule.summary(what)).text
        assert not any(SECRET[at : at + 3] in told for at in range(len(SECRET) - 2)), told


class _Hears:
    """A model that keeps what it is asked."""

    name = "hears"

    def __init__(self) -> None:
        self.heard = ""

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        """It repeats the end of what it was asked."""
        self.heard = text
        return f"It says {SECRET}.", Spent(1, 1, 0.0)


@pytest.mark.asyncio
async def test_a_small_model_neither_hears_nor_tells_a_secret() -> None:
    model = _Hears()
    text = "x" * (summaries.ASKED_CHARS_MAX // 2 - 8) + SECRET + " y" * summaries.ASKED_CHARS_MAX
    summary = await ModelSummariser(model, redact=redact).summary(text)
    assert model.heard
    assert not any(SECRET[at : at + 8] in model.heard for at in range(len(SECRET) - 8))
    assert summary.text == "It says [secret]."


def test_of_a_text_that_is_too_long_to_be_searched_the_edge_is_left_out() -> None:
    text = "x" * (SEARCHED_CHARS_MAX - 5) + SECRET + "tail"
    found = redact_whole(text, redact)
    assert SECRET[:5] not in found
    assert f"about {EDGE_CHARS + len(text) - SEARCHED_CHARS_MAX} characters" in found
    assert redact_whole(f"a {SECRET}", redact) == "a [secret]"
