"""Public names, dead modules and the required documents, and that each rule can fail."""

import re
import tomllib
from collections.abc import Iterator

import operator_sre
from tests.tidy import atlas, public
from tests.tidy.findings import expect_none
from tests.tidy.sources import Source, paths, product, sources, texts

_LISTED = ("src/operator_sre/", "protocols/src/operator_protocols/")


def _listed() -> list[Source]:
    return [source for source in product() if source.path.startswith(_LISTED)]


def _entry_points() -> Iterator[str]:
    for path, text in texts().items():
        if path.endswith("pyproject.toml"):
            project = tomllib.loads(text)["project"]
            for group in [project.get("scripts", {}), *project.get("entry-points", {}).values()]:
                yield from (target.partition(":")[0] for target in group.values())
        elif path == "Makefile":
            yield from re.findall(r"python -m (operator_sre[\w.]+)", text)


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
