"""Sample again, leaving alone, answering in somebody's place, replaying, and saying it short."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.budget import Prices
from operator_protocols.domain.run import (
    Answer,
    Ask,
    Budget,
    Escalate,
    Finish,
    Misuse,
    Spent,
    Turn,
)
from operator_protocols.errors import MissingExtraError, ModelError, UsageError
from operator_protocols.installation import how_to_add_extra
from operator_sre.agent.transcript import answer_from, answer_payload
from operator_sre.models.baselines import Scripted
from operator_sre.models.patience import Breaker, Fallback, Patient
from operator_sre.models.reasoner import Reasoner
from operator_sre.models.summaries import (
    Completion,
    ModelSummariser,
    RuleSummariser,
    Summariser,
    Summary,
)
from tests.contract.clock import LeapingClock
from tests.models.world import DEAD, WELL, World, briefing

pytestmark = pytest.mark.asyncio

ASK = Ask(briefing(), (), Budget())
ANSWER = Answer("I know.", (Finish("over"),))
BUSY = ModelError("Busy.", wait_s=5.0)
DOWN = ModelError("Down.")
WRONG = ModelError("Wrong key.", lasting=True)
GONE = ModelError("Gone.", unreachable=True)


class Moody:
    """Raises what it is given, in order, then answers."""

    name = "moody"

    def __init__(self, *moods: ModelError) -> None:
        self.moods = list(moods)
        self.asked = 0

    async def answer(self, ask: Ask) -> Answer:
        self.asked += 1
        if self.moods:
            raise self.moods.pop(0)
        return ANSWER


async def tried(model: Patient, ask: Ask = ASK) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.answer(ask)
    return caught.value


async def test_the_busy_are_asked_again_when_they_said() -> None:
    clock, moody = LeapingClock(), Moody(BUSY, DOWN)
    assert await Patient(moody, clock=clock, random=Random(1)).answer(ASK) == ANSWER
    assert moody.asked == 3
    assert 5.0 + 1.0 <= clock.monotonic() <= 5.0 + 2.0


async def test_tries_are_few_and_spread() -> None:
    waits = set()
    for seed in range(5):
        clock, moody = LeapingClock(), Moody(*[DOWN] * 99)
        await tried(Patient(moody, clock=clock, tries_max=4, random=Random(seed)))
        assert moody.asked == 4
        assert 3.5 <= clock.monotonic() <= 7.0
        waits.add(clock.monotonic())
    assert len(waits) == 5


async def test_what_lasts_is_not_tried_again() -> None:
    clock, moody = LeapingClock(), Moody(WRONG)
    assert await tried(Patient(moody, clock=clock)) is WRONG
    assert (moody.asked, clock.monotonic()) == (1, 0.0)


async def test_nobody_waits_longer_than_the_run_has() -> None:
    clock, moody = LeapingClock(), Moody(*[BUSY] * 9)
    await tried(Patient(moody, clock=clock), Ask(briefing(), (), Budget(seconds_max=8.0)))
    assert (moody.asked, clock.monotonic()) == (2, 5.0)


async def test_whoever_asks_for_an_hour_is_left_alone() -> None:
    clock, moody = LeapingClock(), Moody(ModelError("Later.", wait_s=600.0))
    patient = Patient(moody, clock=clock)
    await tried(patient)
    assert "Operator retries in" in (await tried(patient)).message
    assert moody.asked == 1
    clock.advance(601.0)
    assert await patient.answer(ASK) == ANSWER


async def test_a_breaker_opens_lets_one_try_and_closes() -> None:
    clock = LeapingClock()
    breaker = Breaker(clock, failures_max=3, open_s=60.0)
    for _ in range(3):
        assert breaker.allows()
        breaker.record_failure()
    assert not breaker.allows()
    clock.advance(61.0)
    assert breaker.allows()
    assert not breaker.allows()  # one is trying already
    breaker.record_failure()
    assert 0 < breaker.closed_in_s <= 60.0
    clock.advance(61.0)
    assert breaker.allows()
    breaker.record_success()
    assert breaker.allows()
    assert breaker.allows()
    assert breaker.closed_in_s == 0.0


async def test_a_model_that_is_down_is_not_asked_by_every_run() -> None:
    clock, moody = LeapingClock(), Moody(*[DOWN] * 99)
    patient = Patient(moody, clock=clock, breaker=Breaker(clock, failures_max=4))
    assert patient.name == "moody"
    await tried(patient)
    for _ in range(10):
        assert "Operator retries in" in (await tried(patient)).message
    assert moody.asked == 4


class Absent:
    """A model whose library is not installed."""

    name = "absent"

    async def answer(self, ask: Ask) -> Answer:
        raise MissingExtraError("agent", needed_for="The model")


async def test_the_reasoner_answers_in_place_of_the_silent_and_says_why() -> None:
    own = await Reasoner().answer(ASK)
    for primary, allowed, why in (
        (Moody(DOWN), "", "Down."),
        (Absent(), "", how_to_add_extra("agent")),
        (Moody(), "The budget of the day is gone.", "The budget of the day is gone."),
    ):
        model = Fallback(primary, Reasoner(), lambda told=allowed: told)  # type: ignore[misc]
        answer = await model.answer(ASK)
        assert answer.calls == own.calls
        assert answer.by == "reasoner"
        assert why in answer.note
        assert primary.name in answer.note
        assert model.name == primary.name
    assert await Fallback(Moody(), Reasoner()).answer(ASK) == ANSWER


async def test_an_unreachable_endpoint_is_tried_twice_and_then_left_alone() -> None:
    clock, moody = LeapingClock(), Moody(*[GONE] * 99)
    patient = Patient(moody, clock=clock)
    assert await tried(patient) is GONE
    assert moody.asked == 2
    assert clock.monotonic() <= 1.0
    assert "Operator retries in" in (await tried(patient)).message
    assert moody.asked == 2, "the next turn does not wait for it either"
    clock.advance(61.0)
    await tried(patient)
    assert moody.asked == 3, "one try decides whether it is back"


class Says:
    """Gives its answers in order, each for ten tokens, and keeps what it was asked."""

    name = "says"

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asks: list[Ask] = []

    async def answer(self, ask: Ask) -> Answer:
        self.asks.append(ask)
        return replace(self.answers.pop(0), spent=Spent(8, 2))


async def test_an_answer_without_a_call_is_asked_again_once() -> None:
    says = Says(Answer("hm", ()), Answer("ok", (Finish("over"),)))
    answer = await Fallback(says, Reasoner()).answer(ASK)
    assert (answer.calls, answer.by, answer.spent.tokens) == ((Finish("over"),), "", 20)
    assert says.asks[1].turns[-1].answer.reasoning == "hm"
    silent = await Fallback(Says(Answer("hm", ()), Answer("hm", ())), Reasoner()).answer(ASK)
    assert silent.by == "reasoner"
    assert silent.calls
    assert "no call in two answers" in silent.note
    assert silent.spent.tokens == 20, "what the model cost is counted"


async def test_three_equal_misuses_hand_the_turn_over() -> None:
    wrong = Answer("hm", (Misuse("fix", '{"n": 1}', "There is no tool 'fix'."),))
    other = Answer("hm", (Misuse("mend", "{}", "There is no tool 'mend'."),))
    turns = [Turn(each, ()) for each in (wrong, other, wrong, wrong)]
    says = Says(*[Answer("", (Finish("over"),))] * 9)
    model = Fallback(says, Reasoner())
    for count, by in ((3, ""), (4, "reasoner")):
        answer = await model.answer(replace(ASK, turns=tuple(turns[:count])))
        assert answer.by == by
    assert "There is no tool 'fix'" in answer.note
    handed = [*turns, Turn(replace(answer, by="reasoner"), ())]
    assert (await model.answer(replace(ASK, turns=tuple(handed)))).by == "", "it may try again"


async def test_no_money_is_spent_when_it_is_gone() -> None:
    moody = Moody()
    await Fallback(moody, Reasoner(), lambda: "gone").answer(ASK)
    assert moody.asked == 0


async def test_a_recorded_run_is_replayed_offline() -> None:
    states = {"store": WELL, "node-1": DEAD, "node-2": WELL}
    first = World(states)
    lived = await first.live(Reasoner())
    payloads = [answer_payload(answer) for answer in first.answers]
    for text in (json.dumps(payloads), "\n".join(map(json.dumps, payloads)) + "\n"):
        again = World(states)
        script = Scripted.read(text, answer_from, name="yesterday")
        assert script.name == "yesterday"
        assert await again.live(script) == lived
        assert again.answers == first.answers
        assert again.done == first.done


async def test_a_script_that_is_too_short_escalates() -> None:
    world = World({"": WELL})
    conclusion = await world.live(Scripted([Answer("", (Action.shell("ls", reasoning="?"),))]))
    assert "script ended after 1" in conclusion.reason
    assert isinstance(world.answers[-1].calls[0], Escalate)


@pytest.mark.parametrize("text", ["[", "5", "{}", "[5]", '[{"calls": [{"call": "x"}]}]', "[[["])
async def test_a_script_that_is_none_is_told_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        Scripted.read(text, answer_from)


async def test_prices() -> None:
    prices = Prices(3.0, 15.0, 0.3)
    assert prices.price(1_000_000, 0).usd == pytest.approx(3.0)
    assert prices.price(0, 1_000_000).usd == pytest.approx(15.0)
    assert prices.price(1_000_000, 0, cached=1_000_000).usd == pytest.approx(0.3)
    assert prices.price(1_000_000, 0, cache_written=1_000_000).usd == pytest.approx(3.75)
    assert Prices(3.0, 15.0).price(1_000_000, 0, cached=500_000).usd == pytest.approx(3.0)
    assert Prices().price(10, 5) == Spent(10, 5, 0.0)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("One. Two! Three?", "One. Two!"),
        ("  It is v1.2.3 at 10.0.0.1, fine. So it is. No more. ", None),
        ("", "No text."),
        ("word " * 200, None),
        ("x" * 5_000, None),
        (
            Result(Outcome.RAN, 0, "ok\nmore", duration_s=0.31),
            "It ran and succeeded after 0.3 s: ok",
        ),
        (
            Result(Outcome.RAN, 1, "out", "warn\nError: no route\nbye"),
            "It ran and failed with exit 1: Error: no route",
        ),
        (Result(Outcome.REFUSED, stderr="No."), "It was refused and did not run: No."),
        (Result(Outcome.UNKNOWN), "Its result is unknown."),
    ],
)
async def test_a_rule_says_it_short(what: str | Result, text: str | None) -> None:
    summariser: Summariser = RuleSummariser()
    found = await summariser.summary(what)
    assert found.by == "rule"
    assert found.spent == Spent()
    assert 0 < len(found.text) <= 300
    assert "\n" not in found.text
    if text is not None:
        assert found.text == text


async def test_no_half_of_a_secret_is_left_in_a_summary() -> None:
    secret = "AKIA" + "QRSTUVWXYZ234567"
    rule = RuleSummariser(redact=lambda text: text.replace(secret, "[REDACTED:aws:1]"))
    for before in range(250, 310):
        text = (await rule.summary("w " * (before // 2) + secret + " tail" * 50)).text
        assert "AKIA" not in text
    unknown = await RuleSummariser().summary("a" * 290 + secret)
    assert "AKIA" not in unknown.text  # a word is kept whole or not at all


class Small:
    """A small model that says what it is given, or raises it."""

    name = "small"

    def __init__(self, *said: str | Exception) -> None:
        self.said = list(said)
        self.heard: list[str] = []

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        self.heard.append(text)
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return said, Spent(10, 5, 0.001)


LONG = "First I looked at the store. It was fine. Then I looked at the node, which was dead."


async def test_a_small_model_says_it_or_the_rule_does() -> None:
    failures: Sequence[Exception] = (DOWN, TimeoutError(), ValueError("x"), OSError("y"))
    small: Completion = Small("A. B. C.", *failures, "  ")
    summariser = ModelSummariser(small)
    assert await summariser.summary(LONG) == Summary("A. B.", "small", Spent(10, 5, 0.001))
    for _ in failures:
        assert (await summariser.summary(LONG)).by == "rule"
    empty = await summariser.summary(LONG)
    assert (empty.by, empty.spent.tokens) == ("rule", 15)


async def test_a_small_model_is_not_paid_for_nothing() -> None:
    small = Small()
    for what in ("", "Short already.", "One. Two."):
        assert (await ModelSummariser(small).summary(what)).by == "rule"
    spare = ModelSummariser(small, allowed=lambda: "The budget of the day is gone.")
    assert (await spare.summary(LONG)).by == "rule"
    assert small.heard == []


async def test_a_small_model_hears_no_secrets_and_no_orders() -> None:
    small = Small("It said: hunter2.")
    summariser = ModelSummariser(small, redact=lambda text: text.replace("hunter2", "[REDACTED]"))
    found = await summariser.summary(Result(Outcome.RAN, 0, "the password is hunter2\nmore"))
    assert "hunter2" not in small.heard[0]
    assert small.heard[0].startswith("<<data ")
    assert found.text == "It said: [REDACTED]."
