"""One page of HTML that needs nothing else and obeys nobody. Pure."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from operator_sre.drawing.showing import escaped

__all__ = ["page", "policy_of", "style_of"]

TITLE_CHARACTERS_MAX = 120


@cache
def style_of(*packages: str) -> str:
    """What pages look like; each of these packages adds a `page.css` of its own."""
    every = (__package__ or "", *packages)
    return "".join(files(one).joinpath("page.css").read_text("utf-8") for one in every)


def policy_of(style: str) -> str:
    """What a browser may do with the page: show it, in our own style, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page(title: str, body: str, *, style: str, kind: str = "") -> str:
    """One self-contained page around a body that is HTML already: no script, nothing fetched."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy_of(style)}">',
            '<meta name="referrer" content="no-referrer">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escaped(title[:TITLE_CHARACTERS_MAX])}</title>",
            f"<style>{style}</style>",
            "</head>",
            f'<body class="{_word(kind)}">',
            "<main>",
            body,
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _word(text: str) -> str:
    return "".join(one for one in text if one.isalnum())
