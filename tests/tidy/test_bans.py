"""Banned calls and the boundaries at which a rule may be broken, and that each rule can fail."""

import pytest

from tests.tidy import allowed, bans
from tests.tidy.findings import expect_none
from tests.tidy.sources import Source, product, sources


def _unlisted(found: list[str], listed: dict[str, str], cure: str) -> list[str]:
    """Places that are not listed, and listed ones that are no longer there."""
    return [f"{place}: {cure}" for place in found if place not in listed] + [
        f"{place} is listed in tests/tidy/allowed.py and not needed"
        for place in listed
        if place not in found
    ]


def test_nothing_banned_is_used() -> None:
    expect_none(finding for source in sources() for finding in bans.banned(source))


def test_broad_excepts_are_named_boundaries() -> None:
    found = [place for source in sources() for place in bans.broad_excepts(source)]
    cure = "catch what can happen, or name the boundary in tests/tidy/allowed.py"
    expect_none(_unlisted(found, allowed.BROAD_EXCEPTS, cure))


def test_prints_are_named_boundaries() -> None:
    found = [place for source in product() for place in bans.prints(source)]
    expect_none(_unlisted(found, allowed.PRINTS, "log it, or let a face show it"))


def test_tests_wait_for_conditions() -> None:
    tests = [source for source in sources() if source.path.startswith("tests/")]
    found = [place for source in tests for place in bans.sleeps(source)]
    expect_none(_unlisted(found, allowed.SLEEPS, "wait for the condition, with a deadline"))


def test_every_exception_has_a_reason() -> None:
    lists = (allowed.BROAD_EXCEPTS, allowed.PRINTS, allowed.SLEEPS, allowed.WORDS)
    assert [place for listed in lists for place, why in listed.items() if len(why) < 10] == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("eval('1')", "literal_eval"),
        ("exec('1')", "function"),
        ("import pickle", "json"),
        ("from pickle import loads", "json"),
        ("import os\nos.system('ls')", "argument list"),
        ("from os import popen as p\np('ls')", "argument list"),
        ("import subprocess as s\ns.run('ls', shell=True)", "argument list"),
        ("import subprocess as s\ns.Popen(['ls'], preexec_fn=print)", "start_new_session"),
        ("import asyncio\nasyncio.create_subprocess_shell('ls')", "create_subprocess_exec"),
        ("import asyncio\nasyncio.get_event_loop()", "get_running_loop"),
        ("from datetime import datetime\ndatetime.now()", "Clock"),
        ("import datetime\ndatetime.datetime.utcnow()", "Clock"),
        ("from datetime import datetime as d\nd.utcfromtimestamp(1)", "UTC"),
        ("import tempfile\ntempfile.mktemp()", "mkstemp"),
    ],
)
def test_banned_call_is_reported_with_its_replacement(text: str, word: str) -> None:
    (finding,) = bans.banned(Source.of(text))
    assert word in finding.partition("instead: ")[2]


def test_harmless_calls_pass() -> None:
    text = "import subprocess, datetime\nclient.eval('lua')\nsubprocess.run(['ls'], shell=False)\n"
    assert bans.banned(Source.of(text + "datetime.datetime.now(datetime.UTC)\n")) == []


@pytest.mark.parametrize(
    "clause",
    [
        "except:",
        "except Exception:",
        "except BaseException as error:",
        "except (ValueError, Exception):",
        "except* Exception:",
    ],
)
def test_broad_except_is_reported(clause: str) -> None:
    text = f"class A:\n  def f(self):\n    try:\n      x = 1\n    {clause}\n      x = 2\n"
    assert bans.broad_excepts(Source.of(text)) == ["src/operator_sre/sample.py:A.f"]


def test_cleaning_up_passes() -> None:
    text = "try:\n    x = 1\nexcept BaseException:\n    x = 2\n    raise\n"
    assert bans.broad_excepts(Source.of(text)) == []
    assert bans.broad_excepts(Source.of(text.replace("raise", "raise ValueError"))) != []


def test_broad_suppress_is_reported() -> None:
    text = "import contextlib\nwith contextlib.suppress(Exception):\n    x = 1\n"
    assert bans.broad_excepts(Source.of(text)) == ["src/operator_sre/sample.py:(module)"]
    assert bans.broad_excepts(Source.of(text.replace("Exception", "OSError"))) == []


def test_print_is_reported() -> None:
    text = "def f():\n    def g():\n        print(1)\n"
    assert bans.prints(Source.of(text)) == ["src/operator_sre/sample.py:f.g"]


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(1)",
        "from time import sleep\nsleep(1)",
        "import asyncio as a\nasync def f():\n    await a.sleep(0.1)",
    ],
)
def test_sleep_is_reported(text: str) -> None:
    assert len(bans.sleeps(Source.of(text))) == 1


def test_sleep_of_zero_passes() -> None:
    assert bans.sleeps(Source.of("import asyncio\nasyncio.sleep(0)")) == []


def test_unlisted_and_stale_places_are_reported() -> None:
    findings = _unlisted(["a.py:f"], {"b.py:g": "a reason"}, "cure it")
    assert findings[0] == "a.py:f: cure it"
    assert "b.py:g is listed" in findings[1]
