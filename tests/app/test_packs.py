"""`operator packs`: which there are, what one holds, and what adding one writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_sre.app.bundles import pack_project
from operator_sre.app.packs import BUILT_IN, Pack, PackLine, add_pack, list_packs, show_pack
from operator_sre.app.project import init_project
from operator_sre.app.wiring import look_at_app
from operator_sre.config import load_config
from tests.app.home import opened

DOCUMENT = Path(__file__).parents[2] / "docs" / "packs.md"
OWN = "# Queue: it is short.\nname: @NAME@\nprobes: {p: {tcp: }}\ninvariants: {i: {holds: p.up}}\n"


def test_every_pack_is_listed_and_documented(tmp_path: Path) -> None:
    config = load_config(flags={"home": str(tmp_path / "home")}, environ={}, cwd=tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8")
    with look_at_app(config) as app:
        lines = list_packs(app)
        assert len(lines) >= 13
        for line in lines:
            assert isinstance(line, PackLine)
            assert f"| `{line.name}` |" in text
            assert line.source == BUILT_IN
            assert min(line.probes, line.invariants) > 0
            assert line.sentence.endswith((".", ":")) or "docs" in line.sentence
        shown = show_pack(app, name="nginx")
        assert isinstance(shown, Pack)
        assert "stub_status" in shown.text
        with pytest.raises(NotFoundError, match=r"no pack 'ngnx'"):
            show_pack(app, name="ngnx")


def test_adding_a_pack_writes_a_description_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(flags={"home": str(tmp_path / "home")}, environ={}, cwd=tmp_path)
    with look_at_app(config) as app:
        written = add_pack(app, name="redis", subject="cache")
        assert written.file == str(tmp_path / "cache.yaml")
        text = (tmp_path / "cache.yaml").read_text()
        assert "name: cache\n" in text
        assert "@NAME@" not in text
        with pytest.raises(UsageError):
            add_pack(app, name="redis", subject="cache")
        with pytest.raises(UsageError, match="not a valid name"):
            add_pack(app, name="redis", subject="a/b")
        assert (tmp_path / "cache.yaml").read_text() == text
    again = load_config(flags={"home": str(tmp_path / "home")}, environ={}, cwd=tmp_path)
    assert [subject.name for subject in again.subjects] == ["cache"]


def test_a_folder_of_files_is_a_set_of_packs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "packs"
    folder.mkdir()
    (folder / "queue.yaml").write_text(OWN)
    config = load_config(flags={"home": str(tmp_path / "home")}, environ={}, cwd=tmp_path)
    with look_at_app(config) as app:
        (line,) = list_packs(app, folder=str(folder))
        assert (line.name, line.sentence) == ("queue", "Queue: it is short.")
        assert (line.probes, line.invariants, line.causes, line.levers) == (1, 1, 0, 0)
        add_pack(app, name="queue", subject="orders", folder=str(folder))
        assert "name: orders\n" in (tmp_path / "orders.yaml").read_text()
        with pytest.raises(NotFoundError, match="no folder"):
            list_packs(app, folder=str(tmp_path / "none"))
        (folder / "bad.yaml").write_text("a: [")
        with pytest.raises(UsageError, match="not YAML"):
            list_packs(app, folder=str(folder))


def test_packs_come_from_a_bundle_only_when_its_signer_is_known(tmp_path: Path) -> None:
    folder = tmp_path / "team"
    init_project(folder)
    (folder / "queue.yaml").write_text(OWN)
    bundle = tmp_path / "team.operator"
    for home in ("mine", "other"):
        (tmp_path / home).mkdir()
    with opened(tmp_path / "mine", "") as app:
        asyncio.run(pack_project(app, folder, bundle))
        (line,) = list_packs(app, folder=str(bundle))
        assert line.name == "queue"
        assert show_pack(app, name="queue", folder=str(bundle)).text == OWN
    with opened(tmp_path / "other", "") as app, pytest.raises(UsageError, match="not known here"):
        list_packs(app, folder=str(bundle))
    bundle.write_bytes(bundle.read_bytes()[:-1] + b"x")
    with opened(tmp_path / "other", "") as app, pytest.raises(OperatorError, match="trusted"):
        list_packs(app, folder=str(bundle))
