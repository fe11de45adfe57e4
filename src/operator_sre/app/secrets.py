"""Secrets: set, removed, bound to holders, leased to one command, never shown."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from operator_protocols.domain.action import TIMEOUT_S_MAX, digest_of
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConflictError, NotFoundError, OperatorError, UsageError
from operator_sre.app.confirmations import Asked, Crossing
from operator_sre.app.persons import administrator
from operator_sre.app.secret_store import (
    COMMAND,
    MODEL,
    SECRET_BYTES_MAX,
    SHOWN_CHARACTERS_MIN,
    SUBJECT,
    Holder,
    Owed,
    Secret,
    give_variables,
    named_secret,
    open_secrets,
)
from operator_sre.config import Config

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "CROSSING",
    "Lease",
    "SecretView",
    "TriedSecret",
    "binding_asked",
    "holder_named",
    "lease_asked",
    "lease_draft",
    "lease_secret",
    "list_secrets",
    "remove_secret",
    "seconds_of",
    "set_secret",
    "settle_changes",
    "sweep_leases",
    "try_secret",
    "unbind_secret",
    "view_of",
]

SECRETS_MAX = 1000
KINDS = (SUBJECT, MODEL, COMMAND)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LEASES = "leases"
HOLDER_CHARACTERS_MAX = 200
HOLDERS_MAX = 50
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# What decides how every program runs is not overwritten by a secret.
_TAKEN = re.compile(r"PATH|HOME|IFS|BASH.*|ENV|LD_.*|PYTHON.*|PERL.*|GIT_.*|LANG|TERM|OPERATOR_.*")
_SPAN = re.compile(r"(\d{1,5})(s|m|)")
# Programs that run other commands or print their environment.
_ANYTHING = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "env", "printenv", "sudo", "su", "xargs"),
        *("nohup", "timeout", "watch", "nice", "setsid", "stdbuf", "tee", "echo", "find", "ssh"),
        *("awk", "gawk", "make", "perl", "ruby", "node", "python", "python3", "php", "lua"),
    }
)


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


@dataclass(frozen=True, slots=True)
class Lease:
    """A secret for one command: as a variable, or in a file whose path the variable is."""

    name: str
    command: str
    variable: str
    in_file: bool
    seconds: float


def list_secrets(app: App) -> list[SecretView]:
    """All of them by name, without their values."""
    known = open_secrets(app.config).all()
    return [view_of(app, known[name]) for name in sorted(known)]


async def set_secret(app: App, name: str, value: str) -> SecretView:
    """Store a value under a name. The bindings of an earlier value stay."""
    person = administrator(app, "set a secret")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:64]!r} is not a valid name of a secret.",
            next_step="Use up to 64 letters, digits, '.', '-' and '_'.",
        )
    if len(value) < SHOWN_CHARACTERS_MIN:
        raise UsageError(
            f"A secret needs at least {SHOWN_CHARACTERS_MIN} characters: redacting a shorter one"
            " would also redact ordinary words.",
            next_step="Use a longer secret.",
        )
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > SECRET_BYTES_MAX or "\0" in value:
        raise UsageError(
            f"A secret is text of up to {SECRET_BYTES_MAX} bytes.",
            next_step="Use a shorter secret.",
        )
    store = open_secrets(app.config)
    owed = Owed(app.new_id(), name, person, {"deed": "set"})
    with store.changing(owed) as known:
        before = known.get(name)
        if before is None and len(known) >= SECRETS_MAX:
            raise UsageError(f"There are already {SECRETS_MAX} secrets.", next_step="Remove some.")
        made = Secret(name, app.clock.now(), person, holders=before.holders if before else ())
        known[name] = store.stow(made, value)
        if before and before.where != known[name].where:
            store.drop(before)  # last, so that a crash in between loses nothing
        owed.details |= {"deed": "changed" if before else "set", "where": known[name].where}
    await settle_changes(app)
    return view_of(app, known[name])


async def remove_secret(app: App, name: str) -> SecretView:
    """Delete a secret; its holders no longer receive it."""
    person = administrator(app, "remove a secret")
    named_secret(app.config, name)
    store = open_secrets(app.config)
    owed = Owed(app.new_id(), name, person, {"deed": "removed"})
    with store.changing(owed) as known:
        gone = known.pop(name, None) or named_secret(app.config, name)
        store.drop(gone)
        owed.details["holders"] = [str(holder) for holder in gone.holders]
    await settle_changes(app)
    return view_of(app, gone)


async def unbind_secret(app: App, name: str, holder: Holder) -> SecretView:
    """It is not given to this one any more. Taking away needs no second look."""
    person = administrator(app, "unbind a secret")
    store = open_secrets(app.config)
    owed = Owed(app.new_id(), name, person, {"deed": "unbound", "holder": str(holder)})
    with store.changing(owed) as known:
        secret = known.get(name) or named_secret(app.config, name)
        left = tuple(bound for bound in secret.holders if str(bound) != str(holder))
        if len(left) == len(secret.holders):
            held = ", ".join(map(str, secret.holders)) or "nobody"
            raise NotFoundError(
                f"{name!r} is not bound to {str(holder)!r}.", next_step=f"It is bound to: {held}."
            )
        known[name] = replace(secret, holders=left)
    await settle_changes(app)
    return view_of(app, known[name])


async def settle_changes(app: App) -> int:
    """Record every change that is missing in the ledger, also of killed processes."""
    store = open_secrets(app.config)
    owed = store.list_owed()
    for change in owed:
        # Idempotent, also for two processes at the same time.
        end = {} if change.done else {"finished": False}
        draft = Draft(
            Kind.SECRET_CHANGED,
            {"name": change.name, **change.details, **end},
            actor=Actor(change.by, "user"),
            key=f"secret_changed:{change.id}",
        )
        await app.store.journal.append(draft)
    if owed:
        store.drop_owed(change.id for change in owed)
    return len(owed)


async def try_secret(app: App, name: str) -> list[TriedSecret]:
    """Whether it can be had, and whether each model and subject that holds it gets on with it."""
    secret = named_secret(app.config, name)
    try:
        open_secrets(app.config).value(secret)
    except OperatorError as error:
        return [TriedSecret(secret.where, works=False, detail=str(error))]
    found = [TriedSecret(secret.where, works=True, detail="its value is set")]
    for holder in secret.holders:
        found.append(await _try_holder(app, holder))
    return found


def view_of(app: App, secret: Secret) -> SecretView:
    """It without its value."""
    age_s = max(0.0, (app.clock.now() - secret.changed_at).total_seconds())
    holders = tuple(sorted(secret.holders))
    return SecretView(secret.name, secret.changed_at, secret.by, age_s, secret.where, holders)


async def _try_holder(app: App, holder: Holder) -> TriedSecret:
    try:
        if holder.kind == MODEL:
            from operator_sre.app.models import try_model

            models = [
                model.name
                for model in app.config.models
                if holder.name in (model.name, model.provider)
            ]
            if not models:
                return TriedSecret(str(holder), works=False, detail="the model is not configured")
            tried = await try_model(app, models[0])
            return TriedSecret(str(holder), not tried.problem, tried.problem or "it answered")
        if holder.kind == SUBJECT:
            from operator_sre.app.subjects import check_subject

            (check,) = await check_subject(app, [holder.name])
            problems = [observed.problem for observed in check.observation.seen if observed.problem]
            # If the target is down, it is unknown whether the secret would be accepted.
            problems += [
                f"{finding.target}: {finding.detail or finding.invariant}"
                for finding in check.findings
                if finding.health is not Health.HEALTHY
            ]
            detail = problems[0] if problems else "observed, and healthy"
            return TriedSecret(str(holder), not problems, detail)
    except OperatorError as error:
        return TriedSecret(str(holder), works=False, detail=str(error))
    return TriedSecret(str(holder), works=True, detail=f"commands receive it as {holder.variable}")


def holder_named(text: str, variable: str = "") -> Holder:
    """Who `subject:etcd`, `model:claude`, `command:PATTERN` or `command@TARGET:PATTERN` is.

    UsageError for an invalid holder.
    """
    kind, _, name = text.partition(":")
    kind, at, target = kind.partition("@")
    name = name.strip()
    if at and (kind != COMMAND or not target):
        raise UsageError(
            f"{text[:HOLDER_CHARACTERS_MAX]!r} cannot have a target.",
            next_step="Only commands have one: command@TARGET:PATTERN",
        )
    if kind not in KINDS or not name or len(name) > HOLDER_CHARACTERS_MAX:
        raise UsageError(
            f"A secret cannot be bound to {text[:HOLDER_CHARACTERS_MAX]!r}.",
            next_step="Use subject:NAME, model:NAME, command:PATTERN or command@TARGET:PATTERN.",
        )
    if not name.isprintable():
        raise UsageError("The name of a holder must be printable.", next_step="Take another.")
    if kind != COMMAND and variable:
        raise UsageError(
            f"A {kind} receives a secret by its name, not as a variable.",
            next_step="Omit --as.",
        )
    if kind == COMMAND:
        program = name.split()[0]
        if re.search(r"[*?\[]", program):
            raise UsageError(
                "A pattern of commands must start with the name of a program, not with a wildcard.",
                next_step="Such as: command:'pg_dump *'",
            )
        if program.rpartition("/")[2] in _ANYTHING:
            raise UsageError(
                f"{program!r} runs other commands or prints its environment, so every command could"
                " read the secret.",
                next_step="Bind it to the program itself.",
            )
    return Holder(kind, name, variable, target)


def binding_asked(app: App, name: str, holder: Holder) -> Asked:
    """The confirmation that a binding requires."""
    secret = named_secret(app.config, name)
    held = _check_holder(app, secret, holder)
    who = {SUBJECT: "subject", MODEL: "model", COMMAND: "every command like"}[holder.kind]
    how = f" as the variable {held.variable}" if held.variable else ""
    if holder.kind == COMMAND:
        how += f", at {held.target!r}," if held.target else ", on this machine,"
    return Asked(
        Boundary.CREDENTIAL_BINDING,
        {
            "name": name,
            "kind": held.kind,
            "holder": held.name,
            "as": held.variable,
            **({"at": held.target} if held.target else {}),
        },
        Risk.HIGH if holder.kind == COMMAND else Risk.MEDIUM,
        f"The {who} {held.name!r} receives the secret {name!r}{how}.".replace("The every", "Every"),
        {"secret": secret.identity},
        destinations=(str(held),),
        credentials=(name,),
    )


def lease_asked(app: App, lease: Lease) -> Asked:
    """What a person has to say yes to before one command is given a secret."""
    secret = named_secret(app.config, lease.name)
    if not lease.command.strip():
        raise UsageError("A lease requires a command.", next_step="Name it with --command.")
    _check_variable(lease.variable)
    if not 1 <= lease.seconds <= TIMEOUT_S_MAX:
        raise UsageError(
            f"A lease lasts between 1 s and {TIMEOUT_S_MAX:.0f} s.",
            next_step="Set it with --for, as 30s or 5m.",
        )
    how = "in a file that" if lease.in_file else "as the variable that"
    return Asked(
        Boundary.DIRECT_LEASE,
        _lease_fields(lease),
        Risk.HIGH,
        f"One command receives the secret {lease.name!r} {how} {lease.variable} names, for at most"
        f" {lease.seconds:.0f} s: {lease.command}",
        {"secret": secret.identity, "command": digest_of(lease.command)},
        destinations=("this machine",),
        credentials=(lease.name,),
    )


@contextmanager
def lease_secret(config: Config, lease: Lease) -> Iterator[None]:
    """Within, the command of a lease is given its secret; then nothing is left of it."""
    sweep_leases(config)
    value = open_secrets(config).value(named_secret(config, lease.name))
    folder = config.home / LEASES / f"{time.time() + lease.seconds:.0f}-{secrets.token_hex(8)}"
    try:
        if lease.in_file:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            handle = os.open(folder / "value", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(value)
            value = str(folder / "value")
        with give_variables(lease.command, {lease.variable: value}):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lease_draft(lease: Lease, by: Actor) -> Draft:
    """What the ledger says of it: everything but the value."""
    return Draft(Kind.SECRET_LEASED, _lease_fields(lease), actor=by)


def _lease_fields(lease: Lease) -> dict[str, object]:
    return {
        "name": lease.name,
        "command": lease.command,
        "as": lease.variable,
        "how": "file" if lease.in_file else "environment",
        "seconds": lease.seconds,
    }


def sweep_leases(config: Config) -> int:
    """Delete files of expired leases whose processes were killed."""
    gone = 0
    for folder in (config.home / LEASES).glob("*-*"):
        ends = folder.name.partition("-")[0]
        if ends.isdigit() and int(ends) < time.time():
            shutil.rmtree(folder, ignore_errors=True)
            gone += 1
    return gone


def seconds_of(text: str) -> float:
    """`30s` or `5m` as seconds."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{text[:20]!r} is not a valid duration.", next_step="Write it as 30s or 5m."
        )
    return float(found[1]) * (60 if found[2] == "m" else 1)


def _check_holder(app: App, secret: Secret, holder: Holder) -> Holder:
    """The holder with its variable, if it can be given this secret."""
    if holder.kind == SUBJECT and holder.name not in app.subjects():
        known = ", ".join(app.subjects()) or "none"
        raise UsageError(f"There is no subject {holder.name!r}.", next_step=f"There are: {known}.")
    if holder.kind == MODEL:
        names = sorted(
            {word for model in app.config.models for word in (model.name, model.provider)}
        )
        if holder.name not in names:
            raise UsageError(
                f"There is no model {holder.name!r}.", next_step=f"There are: {', '.join(names)}."
            )
    targets = sorted({target.name for subject in app.config.subjects for target in subject.targets})
    if holder.target and holder.target not in targets:
        raise UsageError(
            f"There is no target {holder.target!r} to run a command at.",
            next_step=f"There are: {', '.join(targets[:20]) or 'none'}.",
        )
    if holder.kind == COMMAND:
        variable = holder.variable or re.sub(r"[^A-Z0-9_]", "_", secret.name.upper())
        _check_variable(variable)
        holder = replace(holder, variable=variable)
    if holder in secret.holders:
        raise ConflictError(
            f"{secret.name!r} is already bound to {str(holder)!r}.",
            next_step="No change is needed.",
        )
    if len(secret.holders) >= HOLDERS_MAX:
        raise UsageError(
            f"{secret.name!r} is already bound to {HOLDERS_MAX} holders.", next_step="Unbind."
        )
    return holder


def _check_variable(name: str) -> None:
    if not _VARIABLE.fullmatch(name) or _TAKEN.fullmatch(name):
        raise UsageError(
            f"{name[:64]!r} is not a valid variable for a secret.",
            next_step="Name another with --as, such as PGPASSWORD.",
        )


def _why_changed(app: App, confirmation: Confirmation) -> str:
    wanted = confirmation.bound.get("secret")
    try:
        now = named_secret(app.config, str(confirmation.change["name"]))
    except OperatorError:
        return "the secret does not exist"
    # Asked for by its name only, it is whatever has that name.
    return "" if wanted in (None, now.identity) else "the secret has changed since the request"


def _holder(change: Mapping[str, object]) -> Holder:
    at = f"@{change['at']}" if change.get("at") else ""
    return holder_named(f"{change['kind']}{at}:{change['holder']}", str(change.get("as", "")))


async def _bind(app: App, confirmation: Confirmation, by: Actor) -> Sequence[Draft]:
    """Write the binding down, if everything is as it was when it was asked."""
    change = confirmation.change
    name = str(change["name"])
    store = open_secrets(app.config)
    with store.changing() as known:
        if why := _why_changed(app, confirmation):
            raise ConflictError(f"Nothing was bound: {why}.", next_step="Request the change again.")
        holder = _check_holder(app, known[name], _holder(change))
        others = [bound for bound in known[name].holders if str(bound) != str(holder)]
        known[name] = replace(known[name], holders=(*others, holder))
    payload = {"name": name, "deed": "bound", "holder": str(holder), "as": holder.variable}
    return [Draft(Kind.SECRET_CHANGED, payload, actor=by)]


def _is_bound(app: App, confirmation: Confirmation) -> bool | None:
    wanted = _holder(confirmation.change)
    secret = open_secrets(app.config).all().get(str(confirmation.change["name"]))
    return secret is not None and str(wanted) in map(str, secret.holders)


CROSSING = Crossing(
    admin_action=lambda confirmation: "bind a secret",
    changed=_why_changed,
    apply=_bind,
    made=_is_bound,
)
