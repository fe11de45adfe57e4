"""The size of the house: which helpers count as used once."""

import ast
import textwrap

from size import Module, read_sizes


def _module(text: str) -> Module:
    text = textwrap.dedent(text)
    return Module("src/operator_sre/silences.py", text.count("\n"), ast.parse(text))


_TEXT = """
    import re

    def open_silence():
        from json import dumps
        return _once(dumps(_twice()))

    def _once(text):
        return _twice() + text

    def _twice():
        return ""

    def _unused():
        return re.compile("")

    @cache
    def _decorated():
        return ""

    class Silence:
        def end(self):
            self._record()
            return _decorated()

        def _record(self):
            def _nested():
                return 1
            return _nested()

        def __repr__(self):
            return ""
    """


def test_a_private_function_that_is_named_once_is_a_helper_decorated_or_not() -> None:
    helpers = [node.name for node in _module(_TEXT).helpers()]
    assert helpers == ["_once", "_decorated", "_record"]


def test_a_helper_that_is_passed_on_is_not_called_in_place() -> None:
    module = _module("VIEW = dict(view=_table)\ndef _table(): ...\n")
    assert [node.name for node in module.helpers()] == ["_table"]
    assert module.called() == {"dict"}


def test_imports_inside_of_functions_are_counted() -> None:
    assert _module(_TEXT).local_imports() == 1


def test_sizes_are_sums_over_all_modules() -> None:
    sizes = read_sizes([_module(_TEXT), _module("def f(): ...\n")])
    assert sizes["modules"] == "2"
    assert sizes["functions"] == "10"
    assert sizes["helpers used once"] == "3 (30.0 %)"
    assert sizes["of these called in place; the others are passed on"] == "3"
    assert sizes["files that define something of 'silence'"] == "2"
    assert sizes["files that define something of 'token'"] == "0"
