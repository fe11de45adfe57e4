"""The fields of a form, bounded and validated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from fastapi import Request

from operator_protocols.errors import UsageError
from operator_sre.faces.servers.admission import BODY_S_MAX, BodyError, read_bounded

__all__ = ["BODY_BYTES_MAX", "TEXT_MAX", "Form", "form_of"]

BODY_BYTES_MAX = 256 * 1024
FIELDS_MAX = 200
TEXT_MAX = 4000
KIND = "application/x-www-form-urlencoded"
AGAIN = "Go back and try again."


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of one form. Every question raises UsageError for what does not fit."""

    fields: Mapping[str, str]

    def text(self, name: str, *, most: int = TEXT_MAX, needed: bool = False) -> str:
        """A text; "" where it is missing and not needed."""
        value = self.fields.get(name, "").strip()
        if len(value) > most:
            raise UsageError(f"{name!r} has more than {most} characters.", next_step=AGAIN)
        if needed and not value:
            raise UsageError(f"{name!r} is missing.", next_step="Fill it in and try again.")
        return value

    def choice(self, name: str, known: Iterable[str], *, default: str | None = None) -> str:
        """One of these words; needed where there is no default."""
        words = [str(word) for word in known]
        value = self.fields.get(name, "")
        if not value and default is not None:
            return default
        if value not in words:
            raise UsageError(f"{name!r} must be one of: {', '.join(words)}.", next_step=AGAIN)
        return value

    def number(self, name: str, *, least: int = 0, most: int = 2**53) -> int:
        """A whole number within its bounds."""
        value = self.fields.get(name, "").strip()
        if not (value.isascii() and value.isdigit() and len(value) < 17):
            raise UsageError(f"{name!r} must be a whole number.", next_step=AGAIN)
        if not least <= int(value) <= most:
            raise UsageError(f"{name!r} must be between {least} and {most}.", next_step=AGAIN)
        return int(value)

    def flag(self, name: str) -> bool:
        """Whether a box was ticked."""
        return self.fields.get(name, "") in ("on", "yes", "true", "1")


async def form_of(request: Request) -> Form:
    """What was sent. UsageError for what is too large, too slow, or no form."""
    known: Form | None = request.scope.get("form")
    if known is not None:
        return known
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != KIND:
        raise UsageError("The request is not a form.", next_step=AGAIN)
    try:
        body = await read_bounded(request, bytes_max=BODY_BYTES_MAX)
    except BodyError as error:
        message, step = f"The form took longer than {BODY_S_MAX:g} s.", AGAIN
        if error.status == 413:
            message, step = (
                f"The form is larger than {BODY_BYTES_MAX // 1024} KiB.",
                "Shorten the text.",
            )
        raise UsageError(message, next_step=step) from None
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=FIELDS_MAX,
            errors="strict",
        )
    except ValueError:
        raise UsageError("The form cannot be decoded.", next_step=AGAIN) from None
    form = Form(dict(pairs))
    request.scope["form"] = form
    return form
