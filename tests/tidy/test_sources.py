"""What every source is read for: bans, public names, sizes; and that each rule can fail.

One file, so that one process parses all sources once.
"""

import re
import tomllib
from collections.abc import Iterator

import pytest

import operator_sre
from tests.tidy import allowed, atlas, bans, public, shape
from tests.tidy.findings import expect_none
from tests.tidy.sources import PRODUCT, Source, paths, product, sources, texts

_LISTED = (
    "evals/src/operator_evals/",
    "lab/src/operator_lab/",
    "protocols/src/operator_protocols/",
    "src/operator_sre/",
)


@pytest.fixture(scope="module", autouse=True)
def _read_once() -> None:
    """Ask every rule about one file after the other: a file that is parsed once is forgotten."""
    for source in sources():
        for rule in (bans.banned, bans.broad_excepts, bans.lent_ports, bans.sleeps):
            rule(source)
        shape.function_lines(source)
        if source.path.startswith(PRODUCT):
            bans.prints(source)
            public.public_names(source)
            public.mentioned_modules(source)
        if source.path.startswith(_LISTED):
            public.bad_lists(source)


def _listed() -> list[Source]:
    return [source for source in product() if source.path.startswith(_LISTED)]


def _entry_points() -> Iterator[str]:
    for path, text in texts().items():
        if path.endswith("pyproject.toml"):
            project = tomllib.loads(text)["project"]
            for group in [project.get("scripts", {}), *project.get("entry-points", {}).values()]:
                yield from (target.partition(":")[0] for target in group.values())
        elif path == "Makefile":
            yield from re.findall(r"python -m (operator_(?:evals|lab|sre)[\w.]+)", text)


def test_public_names_are_listed() -> None:
    expect_none(finding for source in _listed() for finding in public.bad_lists(source))


def test_public_names_are_tested() -> None:
    tests = [text for path, text in texts().items() if path.startswith("tests/")]
    expect_none(public.untested_names(_listed(), tests))


def test_no_module_is_dead() -> None:
    expect_none(public.dead_modules(product(), [*_entry_points(), *_of_plug_in_authors()]))


def _of_plug_in_authors() -> list[str]:
    """What only those use who write a plug-in, as our example does."""
    return [source.text for source in sources() if source.path.startswith("examples/")]


def test_documents_exist() -> None:
    wanted = {"ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"}
    assert sorted(wanted - set(paths())) == []


def test_every_distribution_is_typed() -> None:
    wanted = {f"{root}py.typed" for root in _LISTED}
    assert sorted(wanted - set(paths())) == []


def test_versions_agree() -> None:
    project = tomllib.loads(texts()["pyproject.toml"])["project"]
    assert operator_sre.__version__ == project["version"]


def test_the_map_is_true() -> None:
    document = texts().get("ARCHITECTURE.md", "")
    findings = [
        error
        for root in _LISTED
        for error in atlas.map_errors(document, root, atlas.packages(paths(), root))
    ]
    expect_none(findings)


def test_missing_list_is_reported() -> None:
    assert "no __all__: A, f" in public.bad_lists(Source.of("class A: ...\ndef f(): ..."))[0]
    assert public.bad_lists(Source.of("def _f(): ...\nimport os")) == []


def test_wrong_list_is_reported() -> None:
    findings = public.bad_lists(Source.of("__all__ = ['f', 'f', 'g']\ndef f(): ..."))
    assert [finding.partition(" ")[2] for finding in findings] == [
        "lists 'f' twice",
        "lists 'g' and does not define it",
    ]


def test_untested_name_is_reported() -> None:
    source = Source.of("__all__ = ['begin', 'end']", "src/operator_sre/gate/__init__.py")
    (finding,) = public.untested_names([source], ["assert begin() == ended"])
    assert "'end'" in finding


def test_an_untested_name_of_the_protocols_is_reported() -> None:
    source = Source.of("__all__ = ['end']", "protocols/src/operator_protocols/domain/run.py")
    assert len(public.untested_names([source], [])) == 1


def test_an_untested_name_is_reported_when_another_folder_uses_it() -> None:
    inner = Source.of("__all__ = ['end']", "src/operator_sre/gate/judge.py")
    near = Source.of("from operator_sre.gate.judge import end", "src/operator_sre/gate/x.py")
    far = Source.of("from operator_sre.gate.judge import end", "src/operator_sre/app/x.py")
    assert public.untested_names([inner, near], []) == []
    assert len(public.untested_names([inner, near, far], [])) == 1


def test_dead_module_is_reported() -> None:
    files = [
        Source.of("from operator_sre import used", "src/operator_sre/app/start.py"),
        Source.of("from . import near", "src/operator_sre/used.py"),
        Source.of("import operator_sre.dead", "src/operator_sre/dead.py"),
        Source.of("LAZY = 'operator_sre.lazy:app'", "src/operator_sre/near.py"),
        Source.of("", "src/operator_sre/lazy.py"),
        Source.of("", "src/operator_sre/app/__init__.py"),
        Source.of("", "src/operator_sre/other/__init__.py"),
    ]
    findings = public.dead_modules(files, ["operator_sre.app.start"])
    assert [finding.partition(" ")[0] for finding in findings] == [
        "src/operator_sre/dead.py",
        "src/operator_sre/other/__init__.py",
    ]


_MAP = """
```
src/operator_sre/
  gate/     4 DECIDE  grammar/ (parse) policy
            and words/ too; either/or is no folder
  models/   minds
  plugins.py
services/
```
"""


def test_true_map_passes() -> None:
    names = ["gate", "gate/grammar", "gate/words", "models"]
    assert atlas.map_errors(_MAP, "src/operator_sre/", names) == []


def test_wrong_map_is_reported() -> None:
    names = ["gate", "gate/grammar", "gate/words", "models", "models/reasoner", "store"]
    errors = atlas.map_errors(_MAP, "src/operator_sre/", names)
    assert len(errors) == 2
    assert "store/ 0 times" in errors[0]
    assert "reasoner/ in src/operator_sre/models/ 0 times" in errors[1]
    errors = atlas.map_errors(_MAP, "src/operator_sre/", ["gate", "gate/words"])
    assert [error for error in errors if "models/, which is not a package" in error]
    assert [error for error in errors if "grammar/" in error]
    assert atlas.map_errors("no tree", "src/operator_sre/", [])


def test_packages_are_found() -> None:
    found = ["src/a/__init__.py", "src/a/b/__init__.py", "src/a/b/c/__init__.py", "src/a/b/d.py"]
    assert atlas.packages(found, "src/a/") == ["b", "b/c"]


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


def test_ports_stay_taken_until_they_are_used() -> None:
    found = [place for source in sources() for place in bans.lent_ports(source)]
    cure = "reserve it (operator_lab.ports, the fixture `free_port`), or bind it to 0 where it is"
    expect_none(_unlisted(found, {}, cure))


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
        ("import sqlite3 as s\nwith s.connect('x') as c:\n    c.commit()", "closing"),
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


@pytest.mark.parametrize(
    ("body", "lends"),
    [
        ('s.bind(("", 0))\n    port = s.getsockname()[1]', True),
        ("port = s.getsockname()[1]", True),
        ('s.bind(("", 0))\n    return s.getsockname()[1]', True),
        ('s.bind(("", 0))\n    yield s.getsockname()[1]', False),
        ("port = s.getsockname()[1]\n    use(port)", False),
    ],
)
def test_a_port_that_was_only_asked_for_is_reported(body: str, *, lends: bool) -> None:
    text = f"import socket\nwith socket.socket() as s:\n    {body}"
    assert bool(bans.lent_ports(Source.of(text))) is lends


def test_sleep_of_zero_passes() -> None:
    assert bans.sleeps(Source.of("import asyncio\nasyncio.sleep(0)")) == []


def test_unlisted_and_stale_places_are_reported() -> None:
    findings = _unlisted(["a.py:f"], {"b.py:g": "a reason"}, "cure it")
    assert findings[0] == "a.py:f: cure it"
    assert "b.py:g is listed" in findings[1]


_MEDIAN_LINES_MAX = 15


def test_functions_fit_a_screen() -> None:
    expect_none(shape.long_functions(sources()))


def test_functions_are_short_as_a_rule() -> None:
    assert shape.median_function_lines(product()) <= _MEDIAN_LINES_MAX


def test_files_are_one_noun() -> None:
    expect_none(shape.long_files(sources()))


def test_lines_fit() -> None:
    expect_none(shape.long_lines(texts()))


def test_names_say_something() -> None:
    expect_none(shape.bad_names(paths()))


def test_the_checkout_is_seen() -> None:
    assert "Makefile" in paths()
    assert any(source.path.startswith("src/operator_sre/") for source in product())
    assert not any(".venv" in path for path in paths())


def _function(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


def test_long_function_is_reported() -> None:
    nested = "class A:\n    def f(self):\n" + "        x = 1\n" * 70
    assert shape.long_functions([Source.of(_function(70))]) == []
    assert "sample.py:f has 71 lines" in shape.long_functions([Source.of(_function(71))])[0]
    assert "sample.py:A.f has 71 lines" in shape.long_functions([Source.of(nested)])[0]


def test_median_is_measured() -> None:
    files = [Source.of(_function(lines)) for lines in (3, 20, 40)]
    assert shape.median_function_lines(files) == 20
    assert shape.median_function_lines([]) == 0


def test_long_file_is_reported() -> None:
    assert shape.long_files([Source.of("x = 1\n" * 500)]) == []
    assert shape.long_files([Source.of("x = 1\n" * 501)]) != []


def test_long_line_is_reported() -> None:
    assert shape.long_lines({"a.py": "x" * 100, "b.md": "x" * 200}) == []
    assert shape.long_lines({"a.py": "\n" + "x" * 101}) == [
        "a.py:2 has 101 characters, at most 100"
    ]


def test_bad_name_is_reported() -> None:
    assert shape.bad_names(["src/a/score.py", "src/a/commoner.py"]) == []
    assert len(shape.bad_names(["a/Utils/b.py", "a/types.py", "core/x.py", "manager.toml"])) == 4
