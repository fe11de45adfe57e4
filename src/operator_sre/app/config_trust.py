"""Settings that were found above the current folder: a person confirms once what they let run."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import ConfigError
from operator_sre.app.persons import must_be_a_person, myself
from operator_sre.app.wiring import App
from operator_sre.config import Config
from operator_sre.ownership import must_be_trusted

__all__ = ["Found", "find_unconfirmed", "keep_trust", "must_be_confirmed", "record_trust"]

RECORD = "trusted.json"
RECORD_BYTES_MAX = 1024 * 1024
FILE_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """A file with settings, what it lets happen, and the digest of all that is confirmed."""

    file: Path
    reasons: Sequence[str]
    digest: str

    @property
    def sentence(self) -> str:
        """What a person is asked about."""
        why = "; ".join(self.reasons)
        return f"{str(self.file)!r} lies above this directory and is not confirmed: {why}."


def find_unconfirmed(config: Config, cwd: Path) -> Found | None:
    """What a person has to confirm before these settings count; None when there is nothing.

    Only a file above the current directory needs it: a user who works in its directory has seen
    it. It is asked about once for each path and content.
    """
    if config.file is None or config.file.parent == cwd.absolute():
        return None
    found = _find_reasons(config)
    if not found.reasons or _read_record(_record_path(config)).get(str(found.file)) == found.digest:
        return None
    return found


def must_be_confirmed(config: Config, cwd: Path) -> None:
    """ConfigError that names the command by which a person confirms it."""
    if found := find_unconfirmed(config, cwd):
        command = f"operator config trust {shlex.quote(str(found.file))}"
        raise ConfigError(found.sentence, next_step=f"Read it, then confirm it with: {command}")


def keep_trust(config: Config) -> Found:
    """Keep that a person has confirmed the settings as they are now, in the user's own folder."""
    must_be_a_person()
    found = _find_reasons(config)
    path = _record_path(config)
    known = _read_record(path) | {str(found.file): found.digest}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(known, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return found


async def record_trust(app: App, found: Found) -> None:
    """Record in the ledger who confirmed what."""
    payload = {"file": str(found.file), "sha256": found.digest, "reasons": list(found.reasons)}
    await app.store.journal.append(Draft(Kind.CONFIG_TRUSTED, payload, actor=myself()))


def _find_reasons(config: Config) -> Found:
    assert config.file is not None
    reasons, source = [], f"file {config.file}"
    if config.mode is Mode.EXECUTE and config.sources["mode"] == source:
        reasons.append("it lets commands run without approval (mode = execute)")
    policy = next((path for path in config.policy_files if path.exists()), None)
    if policy is not None and policy.parent == config.home and config.sources["home"] != source:
        policy = None  # the user's own, wherever the settings lie
    if policy is not None:
        reasons.append(f"its policy {policy.name!r} decides what runs without approval")
    for model in config.models:
        if model.base_url and (model.key_env or model.key_file):
            reasons.append(f"it sends the key of the model {model.name!r} to {model.host}")
    digest = hashlib.sha256()
    for path in (config.file, *([policy] if policy is not None else [])):
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX)
        digest.update(hashlib.sha256(content).digest())
    return Found(config.file, tuple(reasons), digest.hexdigest())


def _record_path(config: Config) -> Path:
    """In the home that the user chose; a file must not bring the record that confirms it."""
    if config.sources["home"] in ("flag", "environment"):
        return config.home / RECORD
    return Path(platformdirs.user_state_dir("operator-sre", appauthor=False)) / RECORD


def _read_record(path: Path) -> dict[str, str]:
    must_be_trusted(path, ConfigError)
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(RECORD_BYTES_MAX))
    except (OSError, ValueError):
        return {}  # nothing is confirmed by what cannot be read
    known = content if isinstance(content, dict) else {}
    return {str(name): str(digest) for name, digest in known.items()}
