"""Files to keep: never shown by a browser, by a name that means nothing anywhere."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Iterable

from fastapi import Response
from fastapi.responses import StreamingResponse

__all__ = ["download"]

NAME_CHARACTERS_MAX = 100
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


def download(
    content: bytes | Iterable[bytes] | AsyncIterable[bytes], name: str, media_type: str
) -> Response:
    """A download under this name, as one text or in chunks."""
    fit = _UNFIT.sub("-", name)[:NAME_CHARACTERS_MAX].strip("-.") or "file"
    headers = {"content-disposition": f'attachment; filename="{fit}"'}
    if isinstance(content, bytes):
        return Response(content, media_type=media_type, headers=headers)
    return StreamingResponse(content, media_type=media_type, headers=headers)
