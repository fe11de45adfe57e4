"""Triggers as operator.toml describes them: doors through which alerts come in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from operator_protocols.errors import ConfigError
from operator_sre.config.tables import unknown
from operator_sre.triggers.trigger import FIELDS, Trigger, TriggerKind

__all__ = ["triggers_of"]

_TEXTS = ("token_file", "hmac_file", "hmac_header", "time_header", "subject", "target", "invariant")
_KEYS = ("kind", *_TEXTS, "open", "fields")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")


def triggers_of(table: Any, file: Path | None) -> tuple[Trigger, ...]:
    """The triggers of a file; ConfigError with the first thing that makes no sense."""
    if not isinstance(table, dict):
        raise ConfigError(f"'triggers' in {str(file)!r} has to be a table.")
    return tuple(_trigger(name, body, str(file)) for name, body in table.items())


def _trigger(name: str, body: Any, file: str) -> Trigger:
    place = f"[triggers.{name}] in {file!r}"
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{place} needs a name of letters, digits, - and _, because it is a path."
        )
    if not isinstance(body, dict):
        raise ConfigError(f"{place} has to be a table.")
    for key, value in body.items():
        if key not in _KEYS:
            raise unknown(key, _KEYS, place)
        if key in _TEXTS and not (isinstance(value, str) and value):
            raise ConfigError(f"{key!r} of {place} has to be a text.")
    kind = body.get("kind")
    if kind not in set(TriggerKind):
        raise ConfigError(f"'kind' of {place} has to be one of {', '.join(TriggerKind)}.")
    for key in ("hmac_header", "time_header"):
        if not _HEADER.fullmatch(body.get(key, "x")):
            raise ConfigError(f"{key!r} of {place} is not the name of a header.")
    if body.get("open", 0) not in (0, 1) or isinstance(body.get("open"), bool):
        raise ConfigError(f"'open' of {place} has to be 0 or 1.")
    if body.get("invariant") and not body.get("subject"):
        raise ConfigError(
            f"'invariant' of {place} names one of a subject.", next_step='Add: subject = "NAME"'
        )
    texts = {key: body[key] for key in _TEXTS if key in body}
    for key in texts.keys() & {"token_file", "hmac_file"}:
        texts[key] = str(Path(file).parent / Path(texts[key]).expanduser())
    fields = _fields(body.get("fields", {}), TriggerKind(kind), place)
    if texts.get("target") and kind == TriggerKind.JSON:
        raise ConfigError(
            f"'target' of {place} is a label of Alertmanager.",
            next_step="For kind 'json' use: fields = { target = \"path.to.it\" }",
        )
    return Trigger(name, TriggerKind(kind), **texts, open=bool(body.get("open", 0)), fields=fields)


def _fields(table: Any, kind: TriggerKind, place: str) -> dict[str, str]:
    if table and kind is not TriggerKind.JSON:
        raise ConfigError(f"'fields' of {place} are for kind 'json'.")
    if not isinstance(table, dict):
        raise ConfigError(f"'fields' of {place} have to be a table.")
    for key, value in table.items():
        if key not in FIELDS:
            raise unknown(key, FIELDS, f"'fields' of {place}")
        if not isinstance(value, str):
            raise ConfigError(f"{key!r} in 'fields' of {place} has to be a path such as 'a.b'.")
    return {**FIELDS, **table}
