"""Models of this home: which one works, its cost, a connection test, and transcripts."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Violation
from operator_protocols.domain.run import Answer, Ask, Briefing, Budget, Misuse, Spent
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import (
    MissingExtraError,
    ModelError,
    NotFoundError,
    OperatorError,
    UsageError,
)
from operator_sre.app.persons import myself
from operator_sre.config.models import (
    AUTO,
    CLAUDE,
    HAIKU,
    RANDOM,
    REASONER,
    RESTART,
    RULE,
    SCRIPTED,
    ModelConfig,
)

if TYPE_CHECKING:
    # Listing models does not load their clients.
    from operator_protocols.ports import Model
    from operator_sre.app.summaries import BackgroundSummaries
    from operator_sre.app.wiring import App
    from operator_sre.config import Config
    from operator_sre.models.remote import RemoteModel, ToolMode

__all__ = [
    "ModelView",
    "Tried",
    "completion_of",
    "is_offline",
    "key_state",
    "list_models",
    "mind_of",
    "model_id",
    "objection_to",
    "over_budget",
    "read_outcome",
    "read_time",
    "script_of",
    "small_question",
    "summaries_of",
    "summary_model",
    "thinking_model",
    "transcript_of",
    "try_model",
]

ENTRIES_MAX = 10_000
SCRIPT_BYTES_MAX = 20_000_000
_NOTES = (
    "This is a test of the connection. Nothing is broken and nothing needs to be done:"
    " call `finish` with the summary 'ready', and nothing else."
)


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model: who has it, whether its key is there, what it costs and what it has cost today.

    `prices` are dollars for a million tokens; `use` is "thinks", "summarises", both or nothing.
    """

    name: str
    provider: str
    model: str
    host: str
    key: str
    prices: Mapping[str, float | None] | None
    today: Spent
    use: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one small question; `problem` says in a sentence why it did not answer."""

    name: str
    seconds: float = 0.0
    spent: Spent = field(default_factory=Spent)
    tools: bool = False
    how: str = ""
    problem: str = ""


class _Absent:
    """A model that cannot be asked, and says why."""

    def __init__(self, name: str, error: OperatorError) -> None:
        self.name = name
        self._error = error

    async def answer(self, ask: Ask) -> Answer:
        """Never."""
        raise self._problem()

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        """Never."""
        raise self._problem()

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _problem(self) -> ModelError:
        return ModelError(self._error.message, next_step=self._error.next_step, lasting=True)


def thinking_model(config: Config) -> str:
    """The name of the model that thinks."""
    name = str(config.values["model"])
    if name != AUTO:
        return name
    return CLAUDE if _has_key(config, CLAUDE) else REASONER


def summary_model(config: Config) -> str:
    """The name of the model that summarises; free of charge with the reasoner."""
    name = str(config.values["summary_model"])
    if name != AUTO:
        return name
    thinks = thinking_model(config)
    return RULE if is_offline(thinks) or not _has_key(config, HAIKU) else HAIKU


def mind_of(app: App) -> Model:
    """Who thinks here. A model that cannot speak is spoken for by the built-in reasoner."""
    from operator_sre.models.patience import Fallback, Patient
    from operator_sre.models.reasoner import Reasoner

    name = thinking_model(app.config)
    if is_offline(name):
        return _offline_model(app.config, name)
    remote = _remote(app, _find_model(app.config, name))
    patient = Patient(remote, clock=app.clock)
    return Fallback(patient, Reasoner(), allowed=lambda: over_budget(app))


def objection_to(ask: Ask) -> str:
    """What contradicts the last diagnosis of a run; empty when nothing does."""
    from operator_sre.models.reasoner.contradiction import find_contradiction

    return find_contradiction(ask)


@asynccontextmanager
async def completion_of(app: App, name: str) -> AsyncIterator[RemoteModel | _Absent]:
    """A configured model that answers text with text; a missing key raises at the call."""
    if is_offline(name):
        raise UsageError(
            f"{name!r} cannot give an opinion: it is not a language model.",
            next_step="Name a model of operator.toml; see: operator models list",
        )
    remote = _remote(app, _find_model(app.config, name))
    try:
        yield remote
    finally:
        await remote.close()


def model_id(config: Config, name: str) -> str:
    """The provider and model behind a configured name, as PROVIDER/MODEL."""
    model = _find_model(config, name)
    return f"{model.provider}/{model.model}"


def summaries_of(app: App) -> BackgroundSummaries:
    """Who says in a sentence what was thought and done."""
    from operator_sre.app.summaries import BackgroundSummaries
    from operator_sre.models.summaries import ModelSummariser, RuleSummariser

    redact = _redact(app)
    rule = RuleSummariser(redact=redact)
    name = summary_model(app.config)
    remote = None
    if name != RULE and not is_offline(name):
        remote = _remote(app, _find_model(app.config, name))
    if remote is None or isinstance(remote, _Absent):
        return BackgroundSummaries(app.store.journal, rule, rule)
    by_model = ModelSummariser(remote, rule=rule, redact=redact, allowed=lambda: over_budget(app))
    return BackgroundSummaries(app.store.journal, by_model, rule)


def over_budget(app: App, more: Spent | None = None) -> str:
    """Why nothing more may be spent today; empty while something may.

    `more` is what was spent and is not written down yet.
    """
    today = sum(app.store.spending.on(app.clock.now()).values(), more or Spent())
    usd, tokens = app.config.number("usd_per_day"), app.config.number("tokens_per_day")
    if today.usd >= usd:
        return f"the daily budget is used up ({usd:g} USD, setting usd_per_day)."
    if today.tokens >= tokens:
        return f"the daily budget is used up ({tokens:.0f} tokens, setting tokens_per_day)."
    return ""


def list_models(app: App) -> Sequence[ModelView]:
    """The built-in reasoner and every model that is known here."""
    config, today = app.config, app.store.spending.on(app.clock.now())
    thinks, summarises = thinking_model(config), summary_model(config)

    def use(name: str) -> str:
        uses = {"thinks": name == thinks, "summarises": name == summarises}
        return ", ".join(use for use, so in uses.items() if so)

    views = [ModelView(REASONER, "built in", "", "", "not needed", None, Spent(), use(REASONER))]
    views += [
        ModelView(
            name=model.name,
            provider=model.provider,
            model=model.model,
            host=model.host,
            key=_key_state(config, model),
            prices=None if model.prices is None else asdict(model.prices),
            today=today.get(model.name, Spent()),
            use=use(model.name),
        )
        for model in config.models
    ]
    return views


async def try_model(app: App, name: str) -> Tried:
    """One small real turn; whatever it answers, nothing is executed."""
    question = small_question(app.clock.now())
    if is_offline(name):
        return await _try_turn(_offline_model(app.config, name), question)
    remote = _remote(app, _find_model(app.config, name))
    try:
        tried = await _try_turn(remote, question)
    finally:
        await remote.close()
    if tried.spent != Spent():
        # What a try cost counts towards the day, as the answer that it is.
        from operator_sre.agent.transcript import answer_payload

        answer = Answer("A test of the connection.", (), tried.spent, tried.name)
        draft = Draft(Kind.REASONING, answer_payload(answer), actor=myself())
        await app.store.journal.append(draft)
    return tried


def transcript_of(app: App, run: str) -> list[dict[str, Any]]:
    """The answers of a run as `scripted:FILE` replays them, without their secrets."""
    if app.store.runs.get(run) is None:
        raise NotFoundError(
            f"There is no run {run!r}.", next_step="List them with: operator audit list"
        )
    entries = app.store.entries.after(0, limit=ENTRIES_MAX, run=run)
    return [dict(entry.payload) for entry in entries if entry.kind is Kind.REASONING]


async def _try_turn(model: Model, ask: Ask) -> Tried:
    started = time.perf_counter()
    try:
        answer = await model.answer(ask)
    except (MissingExtraError, ModelError) as error:
        return Tried(model.name, time.perf_counter() - started, problem=str(error))
    tools = any(not isinstance(call, Misuse) for call in answer.calls)
    how = str(getattr(model, "mode", ""))
    problem = "" if tools else "The model answered, but did not call a tool correctly."
    return Tried(model.name, time.perf_counter() - started, answer.spent, tools, how, problem)


def _find_model(config: Config, name: str) -> ModelConfig:
    for model in config.models:
        if model.name == name:
            return model
    known = ", ".join([REASONER, *(model.name for model in config.models)])
    raise NotFoundError(f"There is no model {name!r}.", next_step=f"Models: {known}.")


def _remote(app: App, model: ModelConfig) -> RemoteModel | _Absent:
    from operator_sre.models.remote import RemoteModel

    try:
        key = _key_of(app.config, model)
    except OperatorError as error:
        return _Absent(model.name, error)
    return RemoteModel(
        name=model.name,
        provider=model.provider,
        model=model.model,
        base_url=model.base_url,
        key=key,
        prices=model.prices,
        timeout_s=model.timeout_s,
        tools=cast("ToolMode", model.tools),
        temperature=model.temperature,
        calls_max=model.calls_max,
        output_tokens_max=model.output_tokens_max,
        context_tokens_max=model.context_tokens_max,
        redact=_redact(app),
        guidance=str(app.config.values["guidance"]),
    )


def _key_of(config: Config, model: ModelConfig) -> str:
    """Its key; UsageError where one is needed and none is there."""
    from operator_sre.app.secret_store import model_key

    key = model.key or model_key(config, model.key_file, (model.name, model.provider))
    if not key and model.key_env:
        raise UsageError(
            "no key is set.",
            next_step=f"Set the variable {model.key_env}, or bind a secret: operator secrets bind"
            f" NAME --to model:{model.name}",
        )
    return key


def _has_key(config: Config, name: str) -> bool:
    """True when there is a key, a file that should have one, or a secret that is bound to it."""
    from operator_sre.app.secret_store import is_held

    model = _find_model(config, name)
    return model.has_key or is_held(config, "model", (model.name, model.provider))


def key_state(config: Config, name: str) -> str:
    """Whether the key of a model is "set", "not set" or "not needed"."""
    return _key_state(config, _find_model(config, name))


def _key_state(config: Config, model: ModelConfig) -> str:
    try:
        key = _key_of(config, model)
    except OperatorError:
        return "not set"
    if not key and not model.key_env and not model.key_file:
        return "not needed"
    return "set" if key else "not set"


def _redact(app: App) -> Callable[[str], str]:
    from operator_sre.app.redaction import open_redactor

    return open_redactor(app.config).text


def is_offline(name: str) -> bool:
    """Whether it needs neither a key nor a network."""
    kind = name.partition(":")[0]
    return kind in (REASONER, RESTART, RANDOM) or name.startswith(SCRIPTED)


def _offline_model(config: Config, name: str) -> Model:
    """The reasoner, what says what was written down, and what understands nothing."""
    from operator_sre.agent.transcript import answer_from
    from operator_sre.models.baselines import RandomCalls, RestartEverything, Scripted
    from operator_sre.models.reasoner import Reasoner

    kind, _, seed = name.partition(":")
    if name == REASONER:
        return Reasoner()
    if name == RESTART:
        return RestartEverything()
    if kind == RANDOM:
        return RandomCalls(int(seed or 0))
    path = Path(name.removeprefix(SCRIPTED)).expanduser()
    if config.file and config.sources["model"] == f"file {config.file}":
        path = config.file.parent / path
    try:
        if path.stat().st_size > SCRIPT_BYTES_MAX:
            raise UsageError(f"The script {str(path)!r} is too long.")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(
            f"The script {str(path)!r} cannot be read: {why}.",
            next_step="Make one with: operator models transcript RUN FILE",
        ) from error
    return Scripted.read(text, answer_from, name="scripted")


def script_of(answers: Sequence[dict[str, Any]]) -> str:
    """A transcript as the text of a file."""
    return json.dumps(answers, indent=2) + "\n"


def small_question(at: datetime) -> Ask:
    """A ticket about a made-up target that is well already."""
    broken = Violation("connection-test", "answers", "nothing", Severity.INFO, _NOTES, at)
    ticket = Ticket(
        id=0,
        subject="connection-test",
        target="nothing",
        severity=Severity.INFO,
        state=TicketState.CLAIMED,
        summary=_NOTES,
        violations=(broken,),
        opened_at=at,
        changed_at=at,
    )
    briefing = Briefing(
        ticket=ticket,
        targets=(Target("nothing", "nothing"),),
        observation=Observation("connection-test", at, (Seen("nothing", {"well": True}),)),
        health=Health.HEALTHY,
        tools=(),
        causes=(),
        notes=_NOTES,
    )
    return Ask(briefing, (), Budget(turns_max=1, commands_max=0, attempts_max=1))


def read_outcome(action: Action, result: Result, since: datetime | None) -> str:
    """What an action of a probe of the reasoner showed, such as `process=dead`, or ""."""
    from operator_sre.models.reasoner import probes

    return probes.read_outcome(action, result, since)


def read_time(line: str, since: datetime | None) -> datetime | None:
    """The time that a line of a log states, as the reasoner reads it; None if it states none."""
    from operator_sre.models.reasoner import logs

    return logs.read_time(line, since)
