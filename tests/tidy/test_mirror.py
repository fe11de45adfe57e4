"""The folders of tests mirror those of the source, so that a test lies where its subject does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The folder of tests in which the folders of a distribution begin.
SOURCES = {
    "src/operator_sre": "",
    "lab/src/operator_lab": "lab",
    "evals/src/operator_evals": "evals",
    "protocols/src/operator_protocols": "protocols",
}
# Tests that are about more than one package, or about none.
OTHERS = {
    "contract_messages": "the messages of src/operator_sre/contract, and the documents of commands",
    "crash": "processes that are killed",
    "deploy": "compose files and images",
    "e2e": "journeys through the whole product",
    "engines": "stand-ins for engines that tests start",
    "lab/matrix": "every fault of every rig",
    "services": "the demo service",
    "subjects/bed": "foreign systems that are broken on purpose, and the score",
    "tidy": "the tree itself",
}
# Tests at the root that are named after no module there.
AT_ROOT = {
    "test_docs": "the documentation",
    "test_many_targets": "one run that repairs several targets",
    "test_preconditions": "what pipeline, executor and reasoner do with preconditions",
}


def _packages() -> Iterator[str]:
    for source, place in SOURCES.items():
        for module in (ROOT / source).rglob("*.py"):
            yield (Path(place) / module.parent.relative_to(ROOT / source)).as_posix()


def _folders_of_tests() -> Iterator[str]:
    for test in (ROOT / "tests").rglob("test_*.py"):
        yield test.parent.relative_to(ROOT / "tests").as_posix()


def test_every_folder_of_tests_mirrors_a_package() -> None:
    packages = {Path(place).as_posix() for place in _packages()}
    found = {*_folders_of_tests()}
    assert found - packages == {*OTHERS}, "move the tests into the folder of what they test"


def test_every_package_at_the_top_has_a_folder_of_tests() -> None:
    tops = {place.partition("/")[0] for place in _packages()} - {"."}
    assert tops <= {place.partition("/")[0] for place in _folders_of_tests()}


def test_a_test_at_the_root_is_about_a_module_at_the_root() -> None:
    modules = {file.stem for file in (ROOT / "src/operator_sre").glob("*.py")}
    tests = {file.stem for file in (ROOT / "tests").glob("test_*.py")}
    assert {name for name in tests if name.removeprefix("test_") not in modules} == {*AT_ROOT}
