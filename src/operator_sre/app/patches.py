"""Changes of the policy and of its limits: proposed with a diff, made only after a person's yes."""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConfigError, ConflictError, UsageError
from operator_sre.app.confirmations import Asked, Crossing, get, request
from operator_sre.app.patch_drafts import FOUND, Edit, draft_edit, request_of
from operator_sre.app.patch_requests import WantedBinding, parse_request

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.config import Config

__all__ = ["CROSSING", "Proposal", "Sketch", "patch_of", "propose", "sketch", "sketch_for"]

ABSENT = "absent"
PRIVATE = 0o600
FILE_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Sketch:
    """The patch of a request, and the change that a person has to confirm."""

    patch: str
    wanted: Asked


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that awaits confirmation. Nothing of it is in force."""

    patch: str
    risk: Risk
    rationale: str
    destinations: tuple[str, ...]
    credentials: tuple[str, ...]
    confirmation: Confirmation


def patch_of(change: Asked) -> str:
    """The difference that a change makes, as `diff -u` shows it."""
    patch = change.change.get("patch")
    if patch is None:
        line = "{name}: {kind} {holder}".format_map(change.change)
        patch = f"--- credentials\n+++ credentials\n@@ -0,0 +1 @@\n+{line}\n"
    return str(patch)


async def propose(app: App, text: str, *, risk: str = "", by: Actor | None = None) -> Proposal:
    """What would allow this, for a person to confirm. UsageError when it is not understood.

    `risk` is `high` when what is wide or private is meant.
    """
    found = sketch_for(app, text, risk=risk)
    confirmation = await request(app, found.wanted, by=by)
    change = found.wanted
    return Proposal(
        patch=found.patch,
        risk=change.risk,
        rationale=confirmation.rationale,
        destinations=change.destinations,
        credentials=change.credentials,
        confirmation=confirmation,
    )


def sketch_for(app: App, text: str, *, risk: str = "") -> Sketch:
    """The same without a request; a credential must exist."""
    found = sketch(app.config, text, risk=risk)
    if found.wanted.boundary is not Boundary.CREDENTIAL_BINDING:
        return found
    from operator_sre.app.secrets import binding_asked, holder_named

    change = found.wanted.change
    holder = holder_named(f"{change['kind']}:{change['holder']}")
    return replace(found, wanted=binding_asked(app, str(change["name"]), holder))


def sketch(config: Config, text: str, *, risk: str = "") -> Sketch:
    """What a request comes to by these settings and the files they name."""
    if risk not in ("", "high"):
        raise UsageError(
            f"{risk[:20]!r} is not a valid value of --risk.",
            next_step="Use --risk high, or omit it.",
        )
    wanted = parse_request(text, high=risk == "high")
    if isinstance(wanted, WantedBinding):
        # A credential's value is nobody's to see, so that the difference is one line.
        name, kind, holder = wanted.name, wanted.kind, wanted.holder
        why = f"The {kind} {holder!r} receives the credential {name!r}. Its value is not shown."
        binding = {"name": name, "kind": kind, "holder": holder}
        boundary = Boundary.CREDENTIAL_BINDING
        change = Asked(boundary, binding, Risk.MEDIUM, why, credentials=(name,))
        return Sketch(patch_of(change), change)
    edit = draft_edit(config, wanted, _text_of)
    name, is_new = edit.file.name, edit.old is None
    lines = difflib.unified_diff(
        (edit.old or "").splitlines(keepends=True),
        edit.new.splitlines(keepends=True),
        "/dev/null" if is_new else f"a/{name}",
        f"b/{name}",
    )
    patch = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    boundary = Boundary.EGRESS if edit.destinations else Boundary.POLICY_PATCH
    details = {
        "request": request_of(wanted),
        "file": str(edit.file),
        "patch": patch,
        "old": _digest(edit.old),
        "new": _digest(edit.new),
    }
    bound = {"file": _digest(edit.old), "policy": edit.policy}
    return Sketch(
        patch,
        Asked(boundary, details, edit.risk, edit.rationale, bound, destinations=edit.destinations),
    )


def _why_changed(app: App, confirmation: Confirmation) -> str:
    """Why a patch is for another policy than there is now, or ""."""
    try:
        edit = _draft_again(app.config, confirmation)
    except UsageError as error:
        return f"it can no longer be made: {error.message}"
    change = confirmation.change
    if _digest(edit.old) != change["old"] or edit.policy != confirmation.bound.get("policy"):
        return f"{edit.file.name} has changed since the request"
    if _digest(edit.new) != change["new"] or str(edit.file) != change["file"]:
        return "the change differs from the requested one"
    return ""


async def _write_patch(app: App, confirmation: Confirmation, by: Actor) -> Sequence[Draft]:
    """Write the file, all of it or nothing, if everything is as it was when it was asked."""
    file = Path(str(confirmation.change["file"]))
    with _alone(file):
        if not get(app, confirmation.id).open:
            raise ConflictError(
                f"Confirmation {confirmation.id!r} has ended meanwhile; nothing was written.",
                next_step="Request the change again.",
            )
        if why := _why_changed(app, confirmation):
            raise ConflictError(
                f"Nothing was written: {why}.", next_step="Request the change again."
            )
        edit = _draft_again(app.config, confirmation)
        _replace_file(edit.file, edit.new)
    change = confirmation.change
    payload = {
        "file": str(edit.file),
        "old": change["old"],
        "new": change["new"],
        "policy_old": edit.policy,
        "policy_new": edit.becomes,
        "patch": change["patch"],
        "confirmation": confirmation.id,
    }
    key = f"policy_changed/{confirmation.id}"
    return [Draft(Kind.POLICY_CHANGED, payload, actor=by, key=key)]


def _is_written(app: App, confirmation: Confirmation) -> bool | None:
    """After a crash: whether the new file was written."""
    now = _digest(_text_of(Path(str(confirmation.change["file"]))))
    known = {confirmation.change["new"]: True, confirmation.change["old"]: False}
    return known.get(now)


def _draft_again(config: Config, confirmation: Confirmation) -> Edit:
    """The same change, derived again from the current file."""
    request = confirmation.change.get("request")
    if not isinstance(request, Mapping) or request.get("kind") not in FOUND:
        raise UsageError("The recorded request is invalid.")
    fields: dict[str, Any] = {name: value for name, value in request.items() if name != "kind"}
    if "argv" in fields:
        fields["argv"] = tuple(fields["argv"])
    try:
        wanted = FOUND[str(request["kind"])](**fields)
    except TypeError:
        raise UsageError("The recorded request is invalid.") from None
    return draft_edit(config, wanted, _text_of)


def _digest(text: str | None) -> str:
    return ABSENT if text is None else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _text_of(file: Path) -> str | None:
    """The text of a file, or None if it does not exist."""
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{str(file)!r} is longer than {FILE_BYTES_MAX} bytes.")
        return data.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"{str(file)!r} cannot be read: {why}.") from error


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Exclude other processes of Operator from the files of this directory."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{str(file)!r} cannot be written: {error.strerror}.") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _replace_file(file: Path, text: str) -> None:
    """Replace a file in one step that survives a crash; its mode stays, a new one is private."""
    real = Path(os.path.realpath(file))
    beside = real.with_name(f".{real.name}.{os.getpid()}")
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else PRIVATE
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        with open(descriptor, "w", encoding="utf-8", newline="") as stream:  # noqa: PTH123
            stream.write(text)
            stream.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        beside.replace(real)
        folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise ConfigError(
            f"{str(file)!r} could not be written and is unchanged: {error.strerror}.",
            next_step="Correct the permissions, and request the change again.",
        ) from error


_HIGH_DEED = "loosen the policy at high risk"
CROSSING = Crossing(
    admin_action=lambda confirmation: _HIGH_DEED if confirmation.risk >= Risk.HIGH else "",
    changed=_why_changed,
    apply=_write_patch,
    made=_is_written,
)
