"""What a person agreed to is what happens: a question that has become another is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.errors import ConflictError, OperatorError
from operator_sre.app.bundles import Installed, pack_project
from operator_sre.app.project import init_project
from operator_sre.app.secret_store import Holder, open_secrets
from operator_sre.app.secrets import list_secrets, set_secret
from operator_sre.app.wiring import App
from operator_sre.operations.project import install_project, trust_question
from operator_sre.operations.secrets import removal_question, remove_secret
from tests.app.home import opened


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    (tmp_path / "here").mkdir()
    with opened(tmp_path / "here", "", secrets_in="file") as home:
        yield home


def _bundle_of_another_home(folder: Path, file: Path) -> None:
    init_project(folder / "shop")
    (folder / "there").mkdir()
    with opened(folder / "there", "", secrets_in="file") as author:
        asyncio.run(pack_project(author, folder / "shop", file))


def test_a_bundle_that_is_replaced_after_the_question_is_not_installed(
    app: App, tmp_path: Path
) -> None:
    bundle = tmp_path / "shop.operator"
    _bundle_of_another_home(tmp_path / "one", bundle)
    agreed = trust_question(app, bundle=bundle, to=None, key="")
    assert "a key that is new here" in agreed
    bundle.unlink()
    _bundle_of_another_home(tmp_path / "two", bundle)
    to = tmp_path / "installed"
    with pytest.raises(OperatorError, match="it changed while you were asked"):
        install_project(app, bundle=bundle, to=to, key="", agreed=agreed)
    assert not to.exists()
    agreed = trust_question(app, bundle=bundle, to=to, key="")
    done = asyncio.run(_wait(install_project(app, bundle=bundle, to=to, key="", agreed=agreed)))
    assert (done.name, Path(done.folder)) == ("shop", to)
    assert trust_question(app, bundle=bundle, to=None, key="") == ""


async def _wait(work: Awaitable[Installed]) -> Installed:
    return await work


def test_a_secret_that_was_bound_after_the_question_is_not_removed(app: App) -> None:
    asyncio.run(set_secret(app, "db", "hunter2-hunter2"))
    agreed = removal_question(app, name="db")
    assert "it is bound to nobody" in agreed
    with open_secrets(app.config).changing() as known:
        known["db"] = replace(known["db"], holders=(Holder("subject", "shop"),))
    with pytest.raises(ConflictError, match="while you were asked"):
        asyncio.run(remove_secret(app, name="db", agreed=agreed))
    assert [secret.name for secret in list_secrets(app)] == ["db"]
    agreed = removal_question(app, name="db")
    asyncio.run(remove_secret(app, name="db", agreed=agreed))
    assert list_secrets(app) == []
