"""Secrets: kept sealed, given to those who hold them, and never shown to anybody."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.errors import NotFoundError, ObservationError, OperatorError, UsageError
from operator_sre.app.secret_store import (
    SHOWN_CHARACTERS_MIN,
    Holder,
    Owed,
    Secret,
    open_secrets,
)
from operator_sre.config import Config
from operator_sre.config.tables import SECRET
from operator_sre.ownership import must_be_trusted

if TYPE_CHECKING:
    from operator_protocols.domain.action import Action
    from operator_sre.app.wiring import App

__all__ = [
    "SecretView",
    "TriedSecret",
    "given",
    "given_to",
    "is_held",
    "list_secrets",
    "model_key",
    "named_secret",
    "read_secret",
    "remove_secret",
    "secret_reader",
    "set_secret",
    "settle_changes",
    "try_secret",
    "unbind_secret",
    "view_of",
]

SECRET_BYTES_MAX = 1 << 16
SECRETS_MAX = 1000
SUBJECT, MODEL, COMMAND = "subject", "model", "command"
KINDS = (SUBJECT, MODEL, COMMAND)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# A command with one of these is more than one program, and the others are not who was meant.
_SEVERAL = frozenset(";&|`$<>(){}\n\r\0\\!")
# What a person hands to one command: that command, and the variables it gets.
_GIVEN: ContextVar[tuple[str, Mapping[str, str]] | None] = ContextVar("given", default=None)


@dataclass(frozen=True, slots=True)
class SecretView:
    """A secret for people and programs: all but its value."""

    name: str
    changed_at: datetime
    by: str
    age_s: float
    where: str
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class TriedSecret:
    """Whether a secret can be had, and whether one of its holders gets on with it."""

    holder: str
    works: bool
    detail: str


def read_secret(path: str) -> str:
    """The text of a file, without its line end. An ObservationError names the file only."""
    must_be_trusted(Path(path).expanduser(), ObservationError, of_any_user=True)
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
        if len(content) > SECRET_BYTES_MAX:
            raise ObservationError(
                f"The secret in {path!r} is longer than {SECRET_BYTES_MAX} bytes."
            )
        return content.decode().strip("\r\n")
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not text"
        raise ObservationError(
            f"The secret in {path!r} cannot be read: {why}.",
            next_step="Correct the path, or who may read it.",
        ) from problem


def secret_reader(config: Config, subject: str) -> Callable[[str], str]:
    """What reads the secrets of a subject: files, and kept ones that it holds."""
    holder = Holder(SUBJECT, subject)

    def read(path: str) -> str:
        if not path.startswith(SECRET):
            return read_secret(path)
        return _held(config, path.removeprefix(SECRET), (holder,))

    return read


def model_key(config: Config, key_file: str, names: Sequence[str]) -> str:
    """The key of a model: in a file, by the name of a kept secret, or bound to it; "" if none."""
    holders = tuple(Holder(MODEL, name) for name in names)
    if key_file.startswith(SECRET):
        return _held(config, key_file.removeprefix(SECRET), holders)
    if key_file:
        return read_secret(key_file)
    store = open_secrets(config)
    for one in store.all().values():
        if any(_is_for(one, holder) for holder in holders):
            return store.value(one)
    return ""


def is_held(config: Config, kind: str, names: Sequence[str]) -> bool:
    """True when a secret is bound to one of these."""
    known = open_secrets(config).all().values()
    return any(_is_for(one, Holder(kind, name)) for one in known for name in names)


def given_to(config: Config, action: Action, *, away: bool = False) -> Mapping[str, str]:
    """The variables that a command is given: those bound to its pattern, and one that is leased.

    `away`: it runs on another machine, which is given only what was bound for that target.
    """
    line = action.command
    leased = None if away else _GIVEN.get()
    found = dict(leased[1]) if leased is not None and leased[0] == line else {}
    store = open_secrets(config)
    if not store.path.exists():
        return found
    places = {action.target} - {""} if away else {"", action.target}
    for one in store.all().values():
        for holder in one.holders:
            here = holder.kind == COMMAND and holder.target in places
            if here and _fits(line, holder.name):
                found.setdefault(holder.variable, store.value(one))
    return found


@contextmanager
def given(command: str, variables: Mapping[str, str]) -> Iterator[None]:
    """Within, exactly this command is given these variables."""
    token = _GIVEN.set((command, variables))
    try:
        yield
    finally:
        _GIVEN.reset(token)


def list_secrets(app: App) -> list[SecretView]:
    """All of them by name, without their values."""
    known = open_secrets(app.config).all()
    return [view_of(app, known[name]) for name in sorted(known)]


def named_secret(config: Config, name: str) -> Secret:
    """The secret of that name. NotFoundError lists those there are."""
    known = open_secrets(config).all()
    if name not in known:
        raise NotFoundError(
            f"There is no secret {name[:64]!r}.",
            next_step=f"Set it with: operator secrets set NAME. There are: {_listed(known)}.",
        )
    return known[name]


async def set_secret(app: App, name: str, value: str) -> SecretView:
    """Keep a value under a name. Those who held the one before hold this one."""
    person = _administrator(app, "set a secret")
    _check(name, value)
    store = open_secrets(app.config)
    owed = Owed(app.new_id(), name, person.id, {"deed": "set"})
    with store.changing(owed) as known:
        before = known.get(name)
        if before is None and len(known) >= SECRETS_MAX:
            raise UsageError(f"There are {SECRETS_MAX} secrets already.", next_step="Remove some.")
        made = Secret(name, app.clock.now(), person.id, holders=before.holders if before else ())
        known[name] = store.stow(made, value)
        if before and before.where != known[name].where:
            store.drop(before)  # last, so that whoever is killed in between has lost nothing
        owed.told |= {"deed": "changed" if before else "set", "where": known[name].where}
    await settle_changes(app)
    return view_of(app, known[name])


async def remove_secret(app: App, name: str) -> SecretView:
    """Forget it; whoever held it gets nothing any more."""
    person = _administrator(app, "remove a secret")
    named_secret(app.config, name)
    store = open_secrets(app.config)
    owed = Owed(app.new_id(), name, person.id, {"deed": "removed"})
    with store.changing(owed) as known:
        gone = known.pop(name, None) or named_secret(app.config, name)
        store.drop(gone)
        owed.told["holders"] = [str(one) for one in gone.holders]
    await settle_changes(app)
    return view_of(app, gone)


async def unbind_secret(app: App, name: str, holder: Holder) -> SecretView:
    """It is not given to this one any more. Taking away needs no second look."""
    person = _administrator(app, "unbind a secret")
    store = open_secrets(app.config)
    owed = Owed(app.new_id(), name, person.id, {"deed": "unbound", "holder": str(holder)})
    with store.changing(owed) as known:
        secret = known.get(name) or named_secret(app.config, name)
        left = tuple(one for one in secret.holders if str(one) != str(holder))
        if len(left) == len(secret.holders):
            held = ", ".join(map(str, secret.holders)) or "nobody"
            raise NotFoundError(
                f"{name!r} is not bound to {str(holder)!r}.", next_step=f"It is bound to: {held}."
            )
        known[name] = replace(secret, holders=left)
    await settle_changes(app)
    return view_of(app, known[name])


async def settle_changes(app: App) -> int:
    """Tell the ledger of every change it does not have yet, also of those who were killed."""
    store = open_secrets(app.config)
    owed = store.owed()
    for one in owed:
        # Whoever tells it twice, or at the same time as another, has told it once.
        payload = {"name": one.name, **one.told, **({} if one.done else {"finished": False})}
        draft = Draft(
            Kind.SECRET_CHANGED,
            payload,
            actor=Actor(one.by, "user"),
            key=f"secret_changed:{one.id}",
        )
        await app.store.journal.append(draft)
    if owed:
        store.paid(one.id for one in owed)
    return len(owed)


async def try_secret(app: App, name: str) -> list[TriedSecret]:
    """Whether it can be had, and whether each model and subject that holds it gets on with it."""
    secret = named_secret(app.config, name)
    try:
        open_secrets(app.config).value(secret)
    except OperatorError as error:
        return [TriedSecret(secret.where, works=False, detail=str(error))]
    found = [TriedSecret(secret.where, works=True, detail="its value is there")]
    for holder in secret.holders:
        found.append(await _tried(app, holder))
    return found


def view_of(app: App, secret: Secret) -> SecretView:
    """It without its value."""
    age_s = max(0.0, (app.clock.now() - secret.changed_at).total_seconds())
    holders = tuple(sorted(secret.holders))
    return SecretView(secret.name, secret.changed_at, secret.by, age_s, secret.where, holders)


async def _tried(app: App, holder: Holder) -> TriedSecret:
    try:
        if holder.kind == MODEL:
            from operator_sre.app.models import try_model

            models = [
                one.name for one in app.config.models if holder.name in (one.name, one.provider)
            ]
            if not models:
                return TriedSecret(str(holder), works=False, detail="there is no such model here")
            tried = await try_model(app, models[0])
            return TriedSecret(str(holder), not tried.problem, tried.problem or "it answered")
        if holder.kind == SUBJECT:
            from operator_sre.app.subjects import check_subject

            (sighting,) = await check_subject(app, [holder.name])
            problems = [one.problem for one in sighting.observation.seen if one.problem]
            # What is down may be seen as down; nobody knows then whether it would have let us in.
            problems += [
                f"{one.target}: {one.detail or one.invariant}"
                for one in sighting.findings
                if one.health is not Health.HEALTHY
            ]
            told = problems[0] if problems else "it was seen, and is healthy"
            return TriedSecret(str(holder), not problems, told)
    except OperatorError as error:
        return TriedSecret(str(holder), works=False, detail=str(error))
    return TriedSecret(
        str(holder), works=True, detail=f"commands are given it as {holder.variable}"
    )


def _held(config: Config, name: str, holders: Sequence[Holder]) -> str:
    store = open_secrets(config)
    secret = store.all().get(name)
    if secret is not None and any(_is_for(secret, holder) for holder in holders):
        return store.value(secret)
    to = holders[0]
    step = f"operator secrets bind {name} --to {to}"
    if secret is None:
        why, step = "is not set", f"operator secrets set {name}; {step}"
    else:
        why = f"is not bound to {str(to)!r}"
    missing = ObservationError(f"The secret {name!r} {why}.", next_step=f"Run: {step}")
    missing.category = ErrorCategory.MISSING_SECRET_BINDING
    missing.next_action = NextAction.SET_SECRET
    raise missing


def _is_for(secret: Secret, holder: Holder) -> bool:
    return any((one.kind, one.name) == (holder.kind, holder.name) for one in secret.holders)


def _fits(line: str, pattern: str) -> bool:
    """Whether a command is one program whose words fit a pattern, word by word."""
    if _SEVERAL & set(line):
        return False
    try:
        words, wanted = shlex.split(line), shlex.split(pattern)
    except ValueError:
        return False
    if wanted and wanted[-1] == "*" and len(words) >= len(wanted) - 1:
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    fits = len(words) == len(wanted) > 0
    return fits and all(fnmatchcase(*pair) for pair in zip(words, wanted, strict=True))


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:64]!r} is no name for a secret.",
            next_step="Take up to 64 letters, digits, '.', '-' and '_'.",
        )
    if len(value) < SHOWN_CHARACTERS_MIN:
        raise UsageError(
            f"A secret needs at least {SHOWN_CHARACTERS_MIN} characters: a shorter one could not be"
            " kept out of what is written without taking ordinary words with it.",
            next_step="Take a longer one.",
        )
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > SECRET_BYTES_MAX or "\0" in value:
        raise UsageError(
            f"A secret is text of up to {SECRET_BYTES_MAX} bytes.", next_step="Take a shorter one."
        )


def _listed(known: Mapping[str, Secret]) -> str:
    return ", ".join(sorted(known)[:20]) or "none"


def _administrator(app: App, deed: str) -> Actor:
    from operator_protocols.errors import AuthorityError
    from operator_sre.app.persons import administrator

    if _inside_agent(app):
        raise AuthorityError(
            "This is a command of an agent: agents change no secrets.", next_step="Ask a person."
        )
    return Actor(administrator(app, deed), "user")


def _inside_agent(app: App) -> bool:
    import os

    from operator_sre.app.acting import acting_person

    return not acting_person() and app.surroundings.mark in os.environ
