"""The choice of `make quick`: near tests are run, far ones are not, and the time is bounded."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import grimp
import pytest

from affected import (
    BUDGET_S,
    COMMON_CONFTEST,
    LONG_S,
    READ_EVERYTHING,
    UNKNOWN_S,
    WORKERS,
    Nearness,
    Tree,
    affected,
    changed_files,
    choose,
    main,
    read_tree,
)
from tests.durations import RECORD
from tests.every import every
from tests.tidy.sources import ROOT, paths, texts

# Other plug-ins take longer to load than these tests take.
_ENVIRON = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
_WORKERS = ("-p", "tests.workers")
_ROOTS = ["src", ".ci", "."]
_TREE = {
    ".ci/tool.py": "",
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
    "docs/cli.md": "How to type.",
    "pyproject.toml": f"tool.ruff.src = {_ROOTS}\ntool.pytest.ini_options.pythonpath = 'src'\n",
    "src/shop/app/__init__.py": "",
    "src/shop/app/wiring.py": "from shop.gate import judge, tables\n",
    "src/shop/cli/main.py": "from shop.app import wiring\nVERBS = {'list': 'shop.cli.tickets'}\n",
    "src/shop/cli/tickets.py": "from shop.cli.output import show\n",
    "src/shop/cli/output.py": "def show(): ...\n",
    "src/shop/gate/__init__.py": "",
    "src/shop/gate/judge.py": "from shop.gate.tables import (\n    RULES,  # all of them\n)\n",
    "src/shop/gate/tables.py": "RULES = {}\n",
    "src/shop/gate/tables/sql.yaml": "select: safe",
    "src/shop/rigs/tikv.py": "import shop.app.wiring\n",
    "tests/app/test_wiring.py": "import shop.app.wiring\n",
    "tests/cli/conftest.py": "from tests.cli.home import Home\n",
    "tests/cli/home.py": "COMMAND = ['-m', 'shop.cli.main']\n",
    "tests/cli/stand_in.py": "",
    "tests/cli/test_manners.py": "STAND_IN = 'stand_in.py'\n",
    "tests/cli/test_output.py": "",
    "tests/cli/test_tickets.py": "from tests.cli.home import Home\n",
    "tests/conftest.py": "import shop.gate.judge\n",
    "tests/contract/test_tables.py": "from shop.app.wiring import all_of_it\n",
    "tests/e2e/test_journey.py": "from shop.rigs import tikv\nGUIDE = 'docs' / 'cli.md'\n",
    "tests/gate/test_judge.py": "from shop.gate.judge import judge\n",
    "tests/gate/test_speed.py": "",
    "tests/test_docs.py": "",
    "tests/test_tool.py": "from tool import main\n",
    "tests/tidy/test_words.py": "",
}


def _near(*changed: str, without: Iterable[str] = ()) -> dict[str, int]:
    """How many steps away each test of the made-up tree is."""
    files = {path: text for path, text in _TREE.items() if path not in without}
    sources = {path: text for path, text in files.items() if path.endswith(".py")}
    found = affected(changed, read_tree([*files, *changed], sources, _ROOTS))
    return {test.removeprefix("tests/"): nearness.steps for test, nearness in found.items()}


@every(
    ("changed", "near"),
    [
        # Imports, by the length of their chain; one that is named after it is near all the same.
        (
            "src/shop/gate/tables.py",
            {
                "gate/test_judge.py": 2,
                "gate/test_speed.py": 2,
                "app/test_wiring.py": 2,
                "contract/test_tables.py": 1,
                "e2e/test_journey.py": 3,
                "cli/test_tickets.py": 4,
                "cli/test_manners.py": 6,
                "cli/test_output.py": 6,
            },
        ),
        # A verb that is loaded by its name; the test of another module of the folder is no help.
        (
            "src/shop/cli/tickets.py",
            {"cli/test_tickets.py": 1, "cli/test_manners.py": 2, "cli/test_output.py": 5},
        ),
        # What all verbs share.
        (
            "src/shop/cli/output.py",
            {"cli/test_output.py": 1, "cli/test_tickets.py": 2, "cli/test_manners.py": 2},
        ),
        # A table is a part of the module that reads it.
        (
            "src/shop/gate/tables/sql.yaml",
            {
                "gate/test_judge.py": 1,
                "gate/test_speed.py": 2,
                "app/test_wiring.py": 2,
                "contract/test_tables.py": 2,
                "e2e/test_journey.py": 3,
                "cli/test_tickets.py": 4,
                "cli/test_manners.py": 6,
                "cli/test_output.py": 6,
            },
        ),
        # A page, by its folder, and by its name.
        ("docs/cli.md", {"test_docs.py": 2, "e2e/test_journey.py": 1}),
        (".ci/tool.py", {"test_tool.py": 1}),
        # A test is what it is; a helper is for those who use it, by import or by its name.
        ("tests/gate/test_judge.py", {"gate/test_judge.py": 0, "gate/test_speed.py": 2}),
        (
            "tests/cli/home.py",
            {"cli/test_tickets.py": 1, "cli/test_manners.py": 2, "cli/test_output.py": 3},
        ),
        ("tests/cli/stand_in.py", {"cli/test_manners.py": 1}),
        (
            "tests/cli/conftest.py",
            {"cli/test_tickets.py": 2, "cli/test_manners.py": 2, "cli/test_output.py": 2},
        ),
    ],
)
def test_tests_are_near_by_imports_by_names_and_by_folders(
    changed: str, near: dict[str, int]
) -> None:
    # Whatever changes, the words of it are read.
    assert _near(changed) == {**near, "tidy/test_words.py": 2}


def test_a_deleted_module_affects_those_that_still_import_it() -> None:
    gone = "src/shop/gate/judge.py"
    assert _near(gone, without=[gone])["gate/test_judge.py"] == 1


def test_a_deleted_test_is_not_run() -> None:
    gone = "tests/gate/test_judge.py"
    assert _near(gone, without=[gone]) == {"gate/test_speed.py": 2, "tidy/test_words.py": 2}


def test_the_conftest_of_all_affects_all_and_its_imports_say_nothing() -> None:
    tests = [path for path in _TREE if "/test_" in path]
    assert len(_near(COMMON_CONFTEST)) == len(tests)
    assert "cli/test_output.py" not in _near("src/shop/rigs/tikv.py")


def _one_step(count: int) -> dict[str, Nearness]:
    return {f"tests/test_{number}.py": Nearness(1, 0) for number in range(count)}


def test_the_nearest_and_cheapest_come_first() -> None:
    near = {"b": Nearness(2, 0), "c": Nearness(1, 1), "d": Nearness(1, 0), "a": Nearness(1, 0)}
    choice = choose(near, {"a": 3.0, "b": 0.1, "c": 0.2, "d": 1.0})
    assert choice.chosen == ("d", "a", "c", "b")
    assert choice.left_out == ()


def test_the_budget_is_kept() -> None:
    near = _one_step(40)
    choice = choose(near, dict.fromkeys(near, BUDGET_S / 4))
    assert BUDGET_S / 2 < choice.seconds <= BUDGET_S
    assert len(choice.chosen) == 3 * WORKERS
    assert {*choice.chosen, *choice.left_out} == set(near)


def test_what_takes_long_is_chosen_only_when_it_is_direct() -> None:
    near = {"direct": Nearness(1, 2), "indirect": Nearness(2, 0), "far": Nearness(3, 0)}
    choice = choose(near, {"direct": LONG_S + 1, "indirect": LONG_S + 1, "far": 0.1})
    assert (choice.chosen, choice.left_out) == (("direct",), ("indirect",))


def test_a_changed_test_runs_whatever_it_takes() -> None:
    near = {"changed": Nearness(0, 0), "direct": Nearness(1, 0)}
    choice = choose(near, {"changed": BUDGET_S * 2, "direct": BUDGET_S * 2})
    assert (choice.chosen, choice.left_out) == (("changed",), ("direct",))


def test_a_few_run_that_were_never_timed() -> None:
    choice = choose(_one_step(40), {})
    assert 1 < len(choice.chosen) <= WORKERS * BUDGET_S / UNKNOWN_S


@cache
def _this_tree() -> Tree:
    sources = {path: text for path, text in texts().items() if path.endswith(".py")}
    return read_tree(
        paths(), sources, tomllib.loads(texts()["pyproject.toml"])["tool"]["ruff"]["src"]
    )


def _here(changed: str, seconds: float = 0.1) -> tuple[str, ...]:
    """What is chosen in this tree when every test file takes as long."""
    assert changed in paths()
    near = affected([changed], _this_tree())
    choice = choose(near, dict.fromkeys(near, seconds))
    assert choice.seconds <= BUDGET_S
    return choice.chosen


def _below(folder: str) -> set[str]:
    return {path for path in paths() if path.startswith(f"{folder}/test_")}


def test_a_typo_in_a_command_starts_no_cluster() -> None:
    chosen = _here("src/operator_sre/faces/cli/history.py")
    assert chosen[0] == "tests/faces/cli/test_history.py"
    assert not [path for path in chosen if path.startswith(("tests/subjects/tikv", "tests/lab"))]
    assert not [path for path in chosen if path.startswith(("tests/e2e", "tests/contract/"))]


def test_a_table_of_the_gate_is_for_the_tests_of_the_gate() -> None:
    chosen = _here("src/operator_sre/gate/grammar/tools/packages.yaml")
    assert _below("tests/gate/grammar") <= set(chosen)
    assert {"tests/gate/test_judge.py", "tests/gate/policy/test_default.py"} <= set(chosen)


def test_a_word_of_the_domain_is_for_many_and_stays_in_the_budget() -> None:
    changed = "protocols/src/operator_protocols/domain/ticket.py"
    assert len(_here(changed)) > 100
    assert 10 < len(_here(changed, seconds=3.0)) < 30


@every(
    ("changed", "wanted"),
    [
        ("docs/cli.md", "tests/test_docs.py"),
        ("docs/tutorial.md", "tests/e2e/test_tutorial.py"),
        (
            "docs/schemas/cli/approvals-approve.json",
            "tests/contract_messages/test_cli_documents.py",
        ),
        ("deploy/images/Dockerfile", "tests/deploy/test_images.py"),
        ("src/operator_sre/faces/web/templates/ticket.html", "tests/faces/web/test_console.py"),
        ("src/operator_sre/store/leases.py", "tests/contract/test_leases.py"),
        ("src/operator_sre/subjects/tikv/causes.toml", "tests/subjects/tikv/test_tikv_causes.py"),
        ("src/operator_sre/config/subjects.py", "tests/config/test_subjects.py"),
        (
            "services/ratelimiter/src/operator_ratelimiter/app.py",
            "tests/services/test_ratelimiter_failover.py",
        ),
        (".ci/beside.py", "tests/tidy/test_beside.py"),
        (COMMON_CONFTEST, "tests/tidy/test_conftest.py"),
    ],
)
def test_what_is_about_a_file_is_chosen_when_it_changes(changed: str, wanted: str) -> None:
    assert wanted in _here(changed)


def test_those_that_read_everything_are_there() -> None:
    assert {*READ_EVERYTHING, COMMON_CONFTEST} <= set(paths())


def test_no_import_is_missed() -> None:
    """What a parser finds in this tree, the search for imports finds too: a step away at most."""
    graph = grimp.build_graph("operator_protocols", "operator_sre", "tests", cache_dir=None)
    for module, path in [
        ("operator_protocols.domain.ticket", "protocols/src/operator_protocols/domain/ticket.py"),
        ("operator_sre.gate.judge", "src/operator_sre/gate/judge.py"),
        ("tests.e2e.home", "tests/e2e/home.py"),
    ]:
        importing = graph.find_modules_that_directly_import(module)
        tests = {f"{name.replace('.', '/')}.py" for name in importing if ".test_" in name}
        near = affected([path], _this_tree())
        assert len(tests) > 15
        assert {test for test in tests if near[test].steps > 1} == set()


def _git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The made-up tree, committed; a user's git, or a hook that runs these tests, has no say."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for path, text in _TREE.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    _git(tmp_path, "init", "-q", "-b", "main")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


def test_every_kind_of_change_is_seen(checkout: Path) -> None:
    assert changed_files(checkout, "HEAD") == []
    (checkout / "docs" / "cli.md").write_text("edited")
    (checkout / "docs" / "über all.md").write_text("not tracked")
    (checkout / "src" / "shop" / "gate" / "judge.py").unlink()
    (checkout / "staged one.txt").write_text("staged")
    _git(checkout, "add", "staged one.txt")
    _git(checkout, "mv", "tests/test_tool.py", "tests/test_moved.py")
    changed = [
        "docs/cli.md",
        "docs/über all.md",
        "src/shop/gate/judge.py",
        "staged one.txt",
        "tests/test_moved.py",
        "tests/test_tool.py",
    ]
    assert changed_files(checkout, "HEAD") == changed


def test_a_branch_is_compared_with_where_it_left_the_base(checkout: Path) -> None:
    _git(checkout, "checkout", "-q", "-b", "mine")
    (checkout / "docs" / "cli.md").write_text("mine")
    _git(checkout, "commit", "-q", "-a", "-m", "mine")
    _git(checkout, "checkout", "-q", "main")
    (checkout / ".ci" / "tool.py").write_text("# theirs")
    _git(checkout, "commit", "-q", "-a", "-m", "theirs")
    _git(checkout, "checkout", "-q", "mine")
    assert changed_files(checkout, "HEAD") == []
    assert changed_files(checkout, "main") == ["docs/cli.md"]


def test_nothing_changed_is_said(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([], checkout) == 0
    assert capfd.readouterr().out == "Nothing differs from HEAD: no test runs.\n"


def test_an_unknown_base_is_refused_with_the_next_step(
    checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--base", "nowhere"], checkout) == 2
    told = capfd.readouterr().err
    assert "cannot tell what differs from 'nowhere'" in told
    assert "make test" in told


def test_chosen_tests_are_run_and_those_left_out_are_counted(
    checkout: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the names of files as they come, and the durations that the run before has written."""
    for name, value in _ENVIRON.items():
        monkeypatch.setenv(name, value)
    (checkout / "tests" / "gate" / "test_two words.py").write_text("def test_it(): assert 1 == 2")
    assert main(list(_WORKERS), checkout) == 1
    out = capfd.readouterr().out
    assert "changed: tests/gate/test_two words.py\nrunning 3 of 3 affected test files" in out
    assert "1 failed" in out
    record = checkout / ".pytest_cache" / "v" / RECORD
    assert '"tests/gate/test_two words.py"' in record.read_text()
    record.write_text('{"tests/gate/test_speed.py": 11.0, "tests/tidy/test_words.py": 0.1}')
    assert main(["--list"], checkout) == 0
    assert capfd.readouterr().out.splitlines() == [
        "tests/gate/test_two words.py",
        "tests/tidy/test_words.py",
    ]


def _timed(folder: Path, *options: str) -> str:
    """Run the tests of a folder with the plug-in, and return what is recorded then."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.durations", *options]
    subprocess.run(words, cwd=folder, env=_ENVIRON, capture_output=True, check=True)
    record = folder / ".pytest_cache" / "v" / RECORD
    return record.read_text() if record.exists() else ""


def test_only_a_whole_run_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text("def test_one(): ...\ndef test_two(): ...")
    (tmp_path / "test_empty.py").write_text("")
    assert _timed(tmp_path, "-k", "one") == ""
    whole = _timed(tmp_path, *_WORKERS, "--workers", "2")
    assert '"test_a.py": 0.0' in whole
    assert '"test_empty.py": 0.0' in whole
