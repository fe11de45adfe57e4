"""What is printed and logged: text from outside made harmless, one record a line."""

from __future__ import annotations

import io
import json
import logging
import sys
from datetime import UTC, datetime

import pytest

from operator_lab.cli.demo import Face, JsonFace, StoryFace
from operator_lab.demo import Ending, Event
from operator_protocols.errors import NotFoundError
from operator_sre.app.story import Line
from operator_sre.faces.cli.logs import JsonLines, TextLines, set_up_logging
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.parser import errors_to_report, report

ENDING = Ending(
    ticket=None,
    target="node-1",
    detect_s=1.0,
    repair_s=None,
    proof_s=None,
    entries=3,
    chain_whole=False,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, even ünïcödé →", "plain, even ünïcödé →"),
        ("tab\tstays", "tab\tstays"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\r\nlines", "two\\r\\nlines"),
        ("bell\x07 delete\x7f c1\x9b", "bell\\x07 delete\\x7f c1\\x9b"),
        ("right\u202eto left", "right\\u202eto left"),
        ("lone\udce9", "lone\\udce9"),
    ],
)
def test_clean_shows_what_a_terminal_would_obey(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_json_carries_its_version_and_nothing_a_terminal_would_obey(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outside = "\x1b[31m\x7f\x9b\u2028é"
    print_json({"said": outside}, line=True)
    out = capsys.readouterr().out
    assert out.endswith("}\n")
    assert out[:-1].isprintable()
    assert json.loads(out) == {"schema_version": "1.0.0", "said": outside}


def test_a_table_is_as_wide_as_it_needs_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "what"), [(1, "a\x1bb"), (1000, "")])
    print_lines(["end"])
    assert capsys.readouterr().out == "ID    WHAT\n1     a\\x1bb\n1000\nend\n"


def _record(text: str, **places: object) -> logging.LogRecord:
    record = logging.LogRecord("operator_sre.x", logging.INFO, "f", 1, "%s", (text,), None)
    for name, value in places.items():
        setattr(record, name, value)
    record.created = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    return record


def test_a_log_line_names_ticket_run_and_target_and_stays_one_line() -> None:
    record = _record("so it\nsaid \x1b[1m", ticket=7, target="node-1")
    text = TextLines().format(record)
    assert text == "03:04:05 INFO ticket=7 run=- target=node-1 so it\\nsaid \\x1b[1m"
    as_json = JsonLines().format(record)
    assert "\n" not in as_json
    assert json.loads(as_json) == {
        "at": "2026-01-02T03:04:05+00:00",
        "level": "info",
        "logger": "operator_sre.x",
        "message": "so it\nsaid \x1b[1m",
        "run": "-",
        "target": "node-1",
        "ticket": 7,
    }


def test_logs_go_to_stderr_in_the_chosen_style(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = logging.getLogger("operator_sre")
    monkeypatch.setattr(ours, "handlers", ours.handlers)
    monkeypatch.setattr(ours, "propagate", ours.propagate)
    before = ours.level
    try:
        set_up_logging(style="json", level="warning")
        logging.getLogger("operator_sre.gate").info("too quiet")
        logging.getLogger("operator_sre.gate").warning("refused")
    finally:
        ours.setLevel(before)
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err)["message"] == "refused"


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (NotFoundError("There is no x.", next_step="Make one."), 2, "There is no x. Make one."),
        (ExceptionGroup("several", [NotFoundError("There is no y.")]), 2, "There is no y."),
        (KeyboardInterrupt(), 130, "Stopped."),
        (ZeroDivisionError("by\x1b[1m zero"), 1, "ZeroDivisionError: by\\x1b[1m zero."),
    ],
)
def test_every_error_becomes_one_sentence(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, says: str
) -> None:
    assert isinstance(error, errors_to_report())
    assert report(error, as_json=False) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("operator: ")
    assert says in said.err
    assert said.err.count("\n") == 1
    assert report(error, as_json=True) == code
    assert set(json.loads(capsys.readouterr().out)["error"]) == {
        "category",
        "message",
        "next_action",
    }


@pytest.mark.parametrize("kind", [JsonFace, StoryFace])
def test_a_demo_without_a_proof_says_so(
    kind: type[JsonFace] | type[StoryFace], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    face: Face = kind(home="/the home")
    with face:
        face.show(Event(Line("file", "it broke \x1b[1m", "bad", ("why\x07",))))
        face.end(ENDING)
    text = out.getvalue()
    assert "\x1b" not in text
    if kind is StoryFace:
        assert "The ticket was NOT resolved." in text
        assert "chain DAMAGED" in text
        assert "--home '/the home'" in text
    else:
        end = json.loads(text.splitlines()[-1])
        assert (end["event"], end["proven"], end["home"]) == ("end", False, "/the home")
