"""A project that is made is ready; one that is not says every reason at once."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import UsageError
from operator_sre.app.bundles import sign_lock
from operator_sre.app.project import (
    FURTHER_CHECKS,
    LOCK,
    Collected,
    Made,
    docker_problem,
    init_project,
    issues,
    line_of,
    why_unreached,
)
from operator_sre.app.secrets import set_secret
from operator_sre.config import TABLES
from operator_sre.contract.messages import ValidationIssue
from tests.app.home import SUBJECTS, opened
from tests.contract.servers import unused_port


def categories(found: tuple[ValidationIssue, ...]) -> dict[str, str]:
    return {str(one.category): str(one.next_action) for one in found}


def test_a_new_project_is_ready_and_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    folder, home = tmp_path / "new" / "shop", str(tmp_path / "home")
    made = init_project(folder)
    assert isinstance(made, Made)
    assert made.written == ("operator.toml", "policy.yaml", "subjects/example.yaml", ".gitignore")
    assert issues(folder, home=home) == ()
    assert not (tmp_path / "home").exists(), "looking makes nothing"
    before = {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    (folder / "policy.yaml").write_text("version: 1\n# mine\n")
    again = init_project(folder)
    assert (again.written, len(again.kept)) == ((), 4)
    assert (folder / "policy.yaml").read_text() == "version: 1\n# mine\n"
    assert {one for one in folder.rglob("*") if one.is_file()} == set(before)
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError):
            init_project(place)


def test_the_example_is_a_subject_once_its_marks_are_taken_away(tmp_path: Path) -> None:
    init_project(tmp_path / "shop")
    toml = tmp_path / "shop" / "operator.toml"
    marked = toml.read_text().splitlines()
    toml.write_text(
        "\n".join(
            one.removeprefix("# ") if one[2:].startswith(("[", "plugin", "options")) else one
            for one in marked
        )
    )
    assert "\n[subjects.example]" in toml.read_text()
    assert issues(tmp_path / "shop", home=str(tmp_path / "home")) == ()


def test_every_problem_is_told_at_once_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    init_project(folder)
    (folder / "policy.yaml").write_text("version: 1\nrules:\n  - nonsense: 1\n")
    (folder / "notes.md").write_text("fine\npassword = 'hunter2-Xk29fjQ'\n")
    with opened(tmp_path, "") as app:
        wrong = [Collected("policy.yaml", b"another")]
        lock = sign_lock(app.key, name="shop", versions={}, plugins=[], files=wrong)
    (folder / LOCK).write_bytes(lock)
    with unused_port() as port:
        toml = (
            'mood = "bad"\nsandbox = "docker"\n'
            f'otlp_endpoint = "http://127.0.0.1:{port}"\n{SUBJECTS}'
            '[subjects.shop.targets.access]\ntoken_file = "secret:shop-token"\n'
            '[subjects.gone]\nplugin = "no-such-plugin"\n'
        )
        (folder / "operator.toml").write_text(toml)
        found = issues(folder, home=str(tmp_path / "home"))
    told = categories(found)
    expected = {
        ErrorCategory.DEPENDENCY_CONFLICT: NextAction.INSTALL_DEPENDENCY,
        ErrorCategory.MISSING_SECRET_BINDING: NextAction.SET_SECRET,
        ErrorCategory.SECRET_SCAN_FAILED: NextAction.FIX_CODE,
        ErrorCategory.PACKAGE_VERIFICATION_FAILED: NextAction.ASK_USER,
        ErrorCategory.POLICY_VALIDATION_FAILED: NextAction.FIX_CODE,
    }
    if docker_problem() is not None:
        expected[ErrorCategory.DOCKER_UNAVAILABLE] = NextAction.START_DOCKER
    assert told.items() >= {str(one): str(step) for one, step in expected.items()}.items()
    assert all(one.evidence_refs for one in found)
    text = "\n".join(one.message for one in found)
    assert "operator.toml:1" in text
    assert "notes.md:2 contains a secret (password)" in text
    assert "operator secrets set shop-token" in text
    assert "hunter2" not in text


def test_an_address_where_nobody_listens_is_a_dashboard_that_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    init_project(folder)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1/traces"
        assert why_unreached(address) == ""
    with unused_port() as dead:
        address = f"http://127.0.0.1:{dead}/v1/traces"
        (folder / "operator.toml").write_text(f'otlp_endpoint = "{address}"\n')
        told = categories(issues(folder, home=str(tmp_path / "home")))
    assert told["dashboard_unavailable"] == "rerun"
    for nonsense in ("", "http://", "http://[", "host:port"):
        assert why_unreached(nonsense) == "it is not a valid address"


def test_a_secret_that_is_set_and_not_bound_is_missing_still(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    init_project(folder)
    access = '[subjects.shop.targets.access]\ntoken_file = "secret:shop-token"\n'
    (folder / "operator.toml").write_text(SUBJECTS + access)
    with opened(tmp_path, "", secrets_in="file") as app:
        asyncio.run(set_secret(app, "shop-token", "a token that is long"))
    (found,) = issues(folder, home=str(tmp_path / "home"))
    assert found.category is ErrorCategory.MISSING_SECRET_BINDING
    assert "operator secrets bind shop-token --to subject:shop" in found.message


def test_a_key_is_found_by_its_line() -> None:
    text = '# mood = 1\nmode = "observe"\nmood = 2\n[tables.x]\nmood = 3\n'
    assert (line_of(text, "mood"), line_of(text, "tables"), line_of(text, "none")) == (3, 4, 0)
    assert len(FURTHER_CHECKS) == len(set(FURTHER_CHECKS))


def test_every_table_that_a_start_accepts_is_known_to_the_validation(tmp_path: Path) -> None:
    folder, home = tmp_path / "shop", str(tmp_path / "home")
    init_project(folder)
    toml = folder / "operator.toml"
    given = toml.read_text()
    for table in TABLES:
        toml.write_text(f"{given}\n[{table}]\n")
        assert not [one for one in issues(folder, home=home) if "is not a setting" in one.message]
    toml.write_text(f'{given}\n[service]\nparts = ["wbe"]\n')
    (found,) = issues(folder, home=home)
    assert "'parts' of [service]" in found.message
