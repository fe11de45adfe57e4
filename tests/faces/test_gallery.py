"""The pictures of the README: each is there, is one that can be taken anew, and fetches nothing."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from xml.etree import ElementTree

from tests.every import every
from tests.faces.gallery import ASKED, FOLDER, HOST, OVER, PICTURES, slim

ROOT = Path(__file__).parents[2]
SIZE_BYTES_MAX = 100_000
# A folder of somebody, wherever they work.
SOMEBODYS = re.compile(r"/(?:home|root|Users|work|var|mnt|opt|builds)/|/tmp/(?!operator)")
SHOWN = re.compile(r"!\[([^\]]*)\]\((?:docs/)?gallery/([a-z]+)\.svg\)")


def test_the_readme_shows_pictures_that_can_be_taken_anew() -> None:
    readme, console = (ROOT / "README.md").read_text(), (ROOT / "docs" / "console.md").read_text()
    assert [name for _, name in SHOWN.findall(readme)] == ["demo"]
    shown = {name: text for text, name in SHOWN.findall(readme + console)}
    assert shown == PICTURES
    assert sorted(PICTURES) == sorted(one.stem for one in FOLDER.iterdir())
    assert sorted(PICTURES) == sorted(["demo", *ASKED, *OVER])
    assert "-m tests.faces.gallery" in (ROOT / "Makefile").read_text()


@every("name", PICTURES)
def test_a_picture_is_whole_small_and_names_nobody(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text()
    assert len(text.encode()) <= SIZE_BYTES_MAX
    root = ElementTree.fromstring(text)  # noqa: S314 - it is ours
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert text == slim(text)
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not SOMEBODYS.search(text)
    assert "<script" not in text
    said = "".join(root.itertext()).replace("\xa0", " ")
    if socket.gethostname() not in (HOST, "localhost"):
        assert not re.search(rf"\b{re.escape(socket.gethostname())}:\d", said)
    assert "Traceback" not in said


def test_what_a_picture_would_fetch_is_taken_out() -> None:
    face = '@font-face { font-family: "x"; src: url("https://cdn.example/x.woff2"); }'
    told = slim(
        f"<svg>\n<!-- made by -->\n<style>\n  {face}\n .terminal-12-r1 {{}}\n</style></svg>"
    )
    assert told == "<svg>\n<style>\n.t-r1 {}\n</style></svg>\n"
