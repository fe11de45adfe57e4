"""Binding a secret to whoever is given it, and leasing one to a single command: both are asked."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from operator_protocols.domain.action import TIMEOUT_S_MAX, digest_of
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConflictError, OperatorError, UsageError
from operator_sre.app.crossing import Asked, Crossing
from operator_sre.app.secret_store import Holder, Secret, open_secrets
from operator_sre.app.secrets import COMMAND, KINDS, MODEL, SUBJECT, given, named_secret
from operator_sre.app.wiring import App
from operator_sre.config import Config

__all__ = [
    "CROSSING",
    "Lease",
    "binding_asked",
    "holder_named",
    "lease_asked",
    "leased",
    "leased_draft",
    "seconds_of",
    "sweep_leases",
]

LEASES = "leases"
HOLDER_CHARACTERS_MAX = 200
HOLDERS_MAX = 50
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# What decides how every program runs is not overwritten by a secret.
_TAKEN = re.compile(r"PATH|HOME|IFS|BASH.*|ENV|LD_.*|PYTHON.*|PERL.*|GIT_.*|LANG|TERM|OPERATOR_.*")
_SPAN = re.compile(r"(\d{1,5})(s|m|)")
# Programs that run whatever they are told, or tell all that they are given.
_ANYTHING = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "env", "printenv", "sudo", "su", "xargs"),
        *("nohup", "timeout", "watch", "nice", "setsid", "stdbuf", "tee", "echo", "find", "ssh"),
        *("awk", "gawk", "make", "perl", "ruby", "node", "python", "python3", "php", "lua"),
    }
)


@dataclass(frozen=True, slots=True)
class Lease:
    """A secret for one command: as a variable, or in a file whose path the variable is."""

    name: str
    command: str
    variable: str
    in_file: bool
    seconds: float


def holder_named(text: str, variable: str = "") -> Holder:
    """Who `subject:etcd`, `model:claude`, `command:PATTERN` or `command@TARGET:PATTERN` is.

    UsageError for nobody.
    """
    kind, _, name = text.partition(":")
    kind, at, target = kind.partition("@")
    name = name.strip()
    if at and (kind != COMMAND or not target):
        raise UsageError(
            f"{text[:HOLDER_CHARACTERS_MAX]!r} names no target that has commands.",
            next_step="Only commands have one: command@TARGET:PATTERN",
        )
    if kind not in KINDS or not name or len(name) > HOLDER_CHARACTERS_MAX:
        raise UsageError(
            f"{text[:HOLDER_CHARACTERS_MAX]!r} is nobody that a secret can be bound to.",
            next_step="Say subject:NAME, model:NAME, command:PATTERN or command@TARGET:PATTERN.",
        )
    if not name.isprintable():
        raise UsageError("A holder's name has to be printable.", next_step="Take another.")
    if kind != COMMAND and variable:
        raise UsageError(
            f"A {kind} is given a secret by its name, not as a variable.",
            next_step="Leave --as away.",
        )
    if kind == COMMAND:
        _check_pattern(name)
    return Holder(kind, name, variable, target)


def binding_asked(app: App, name: str, holder: Holder) -> Asked:
    """What a person has to say yes to before somebody is given a secret."""
    secret = named_secret(app.config, name)
    held = _checked(app, secret, holder)
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
        f"The {who} {held.name!r} is given the secret {name!r}{how} from then on.".replace(
            "The every", "Every"
        ),
        {"secret": secret.identity},
        destinations=(str(held),),
        credentials=(name,),
    )


def lease_asked(app: App, lease: Lease) -> Asked:
    """What a person has to say yes to before one command is given a secret."""
    secret = named_secret(app.config, lease.name)
    if not lease.command.strip():
        raise UsageError("There is no command to lease it to.", next_step="Name it: --command.")
    _check_variable(lease.variable)
    if not 1 <= lease.seconds <= TIMEOUT_S_MAX:
        raise UsageError(
            f"A lease lasts between 1 and {TIMEOUT_S_MAX:.0f} seconds.",
            next_step="Say it with --for, as 30s or 5m.",
        )
    how = "in a file that" if lease.in_file else "as the variable that"
    change = {
        "name": lease.name,
        "command": lease.command,
        "as": lease.variable,
        "how": "file" if lease.in_file else "environment",
        "seconds": lease.seconds,
    }
    return Asked(
        Boundary.DIRECT_LEASE,
        change,
        Risk.HIGH,
        f"One command is given the secret {lease.name!r} {how} {lease.variable} names, for at most"
        f" {lease.seconds:.0f} seconds: {lease.command}",
        {"secret": secret.identity, "command": digest_of(lease.command)},
        destinations=("this machine",),
        credentials=(lease.name,),
    )


@contextmanager
def leased(config: Config, lease: Lease) -> Iterator[None]:
    """Within, the command of a lease is given its secret; then nothing is left of it."""
    sweep_leases(config)
    value = open_secrets(config).value(named_secret(config, lease.name))
    folder = config.home / LEASES / f"{time.time() + lease.seconds:.0f}-{secrets.token_hex(8)}"
    try:
        told = str(_filed(folder, value)) if lease.in_file else value
        with given(lease.command, {lease.variable: told}):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def leased_draft(lease: Lease, by: Actor) -> Draft:
    """What the ledger says of it: everything but the value."""
    payload = {
        "name": lease.name,
        "command": lease.command,
        "as": lease.variable,
        "how": "file" if lease.in_file else "environment",
        "seconds": lease.seconds,
    }
    return Draft(Kind.SECRET_LEASED, payload, actor=by)


def sweep_leases(config: Config) -> int:
    """Take away files of leases that are over, because whoever held them was killed."""
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
        raise UsageError(f"{text[:20]!r} is no span of time.", next_step="Say it as 30s or 5m.")
    return float(found[1]) * (60 if found[2] == "m" else 1)


def _filed(folder: Path, value: str) -> Path:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    handle = os.open(folder / "value", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(value)
    return folder / "value"


def _checked(app: App, secret: Secret, holder: Holder) -> Holder:
    """The holder with its variable, if it can be given this secret."""
    if holder.kind == SUBJECT and holder.name not in app.subjects():
        known = ", ".join(app.subjects()) or "none"
        raise UsageError(f"There is no subject {holder.name!r}.", next_step=f"There are: {known}.")
    if holder.kind == MODEL:
        names = sorted({word for one in app.config.models for word in (one.name, one.provider)})
        if holder.name not in names:
            raise UsageError(
                f"There is no model {holder.name!r}.", next_step=f"There are: {', '.join(names)}."
            )
    if holder.target and holder.target not in (targets := _targets(app)):
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
            f"{secret.name!r} is bound to {str(holder)!r} already.", next_step="Nothing is to do."
        )
    if len(secret.holders) >= HOLDERS_MAX:
        raise UsageError(f"{secret.name!r} is bound to {HOLDERS_MAX} already.", next_step="Unbind.")
    return holder


def _targets(app: App) -> list[str]:
    return sorted({target.name for one in app.config.subjects for target in one.targets})


def _check_variable(name: str) -> None:
    if not _VARIABLE.fullmatch(name) or _TAKEN.fullmatch(name):
        raise UsageError(
            f"{name[:64]!r} cannot be the variable of a secret.",
            next_step="Name another with --as, such as PGPASSWORD.",
        )


def _check_pattern(pattern: str) -> None:
    program = pattern.split()[0]
    if re.search(r"[*?\[]", program):
        raise UsageError(
            "A pattern of commands begins with the name of a program, not with a wildcard.",
            next_step="Such as: command:'pg_dump *'",
        )
    if program.rpartition("/")[2] in _ANYTHING:
        raise UsageError(
            f"{program!r} runs whatever it is told, or tells what it is given, so that anybody"
            " would have the secret.",
            next_step="Bind it to the program itself.",
        )


def _changed(app: App, confirmation: Confirmation) -> str:
    wanted = confirmation.bound.get("secret")
    try:
        now = named_secret(app.config, str(confirmation.change["name"]))
    except OperatorError:
        return "the secret is not there"
    # Asked for by its name only, it is whatever has that name.
    return "" if wanted in (None, now.identity) else "the secret has changed since"


def _holder(change: Mapping[str, object]) -> Holder:
    at = f"@{change['at']}" if change.get("at") else ""
    return holder_named(f"{change['kind']}{at}:{change['holder']}", str(change.get("as", "")))


async def _apply(app: App, confirmation: Confirmation, by: Actor) -> Sequence[Draft]:
    """Write the binding down, if everything is as it was when it was asked."""
    change = confirmation.change
    name = str(change["name"])
    store = open_secrets(app.config)
    with store.changing() as known:
        if why := _changed(app, confirmation):
            raise ConflictError(f"Nothing is bound: {why}.", next_step="Ask for it again.")
        holder = _checked(app, known[name], _holder(change))
        others = [one for one in known[name].holders if str(one) != str(holder)]
        known[name] = replace(known[name], holders=(*others, holder))
    told = {"name": name, "deed": "bound", "holder": str(holder), "as": holder.variable}
    return [Draft(Kind.SECRET_CHANGED, told, actor=by)]


def _made(app: App, confirmation: Confirmation) -> bool | None:
    wanted = _holder(confirmation.change)
    secret = open_secrets(app.config).all().get(str(confirmation.change["name"]))
    return secret is not None and str(wanted) in map(str, secret.holders)


def _deed(confirmation: Confirmation) -> str:
    return "bind a secret"


CROSSING = Crossing(deed=_deed, changed=_changed, apply=_apply, made=_made)
