"""Sizes and names, and that each rule can fail."""

from tests.tidy import shape
from tests.tidy.findings import expect_none
from tests.tidy.sources import Source, paths, product, sources, texts

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
