"""Words that stay out of committed files, and that each rule can fail."""

import pytest

from tests.tidy import allowed, words
from tests.tidy.findings import expect_none
from tests.tidy.sources import paths, texts


def test_no_leftover_notes() -> None:
    # What others wrote is kept as they wrote it.
    ours = {path: text for path, text in texts().items() if "/static/vendor/" not in path}
    expect_none(words.leftover_notes(ours))


def test_no_words_of_the_workshop() -> None:
    findings = words.workshop_words(texts())
    listed = tuple(f"{path}:" for path in allowed.WORDS)
    expect_none(finding for finding in findings if not finding.startswith(listed))
    stale = [path for path in listed if not any(text.startswith(path) for text in findings)]
    expect_none(f"{path} is listed in tests/tidy/allowed.py and not needed" for path in stale)


def test_the_lock_names_no_address() -> None:
    assert "://" not in texts()["requirements.lock"]
    assert "uv.lock" not in paths()


# The samples have a gap, closed when they are used: this file is looked at as well.
@pytest.mark.parametrize("gapped", ["TO~DO", "FIX~ME", "XX~X", "HA~CK"])
def test_leftover_note_is_reported(gapped: str) -> None:
    note = gapped.replace("~", "")
    assert words.leftover_notes({"a.md": f"fine\n<!-- {note}: later -->"}) != []
    assert words.leftover_notes({"a.md": f"{note}S {note.lower()} X{note}"}) == []


@pytest.mark.parametrize(
    "gapped",
    [
        "index = https://py~pi.org/simple",
        "from files.python~hosted.org",
        "--index~-url=https://mirror",
        "open('/wo~rk/main')",
        "see /ro~ot/.cache",
        "as in iss~ue #12",
        "Pha~se 2 adds",
        "mile~stone 3",
    ],
)
def test_word_of_the_workshop_is_reported(gapped: str) -> None:
    text = gapped.replace("~", "")
    assert len(words.workshop_words({"a.md": f"fine\n{text}"})) == 1


def test_ordinary_words_pass() -> None:
    fine = "an issue, 3 phases; docs/wo~rk/flow and ${HOME}/wo~rk/x".replace("~", "")
    assert words.workshop_words({"a.md": fine}) == []
