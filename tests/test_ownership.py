"""Files that another user could change are not believed, and the error names the remedy."""

from __future__ import annotations

import itertools
import os
import shlex
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from operator_protocols.errors import ConfigError, MissingPluginError, StoreError
from operator_sre.app.policy import policy_file
from operator_sre.app.secret_store import open_secrets, read_secret
from operator_sre.config import load_config
from operator_sre.ledger.keys import load_key
from operator_sre.ownership import distrust, is_open, is_private_group, must_be_trusted
from operator_sre.plugins import GROUP, find_plugin

ADA, EVE, OWN_GROUP, TEAM = 1001, 1002, 1001, 50
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def _status(kind: int, mode: int, uid: int, gid: int) -> os.stat_result:
    return os.stat_result((kind | mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


def test_every_owner_group_and_mode_is_judged_by_who_can_write() -> None:
    kinds = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
    modes = [special | low for special in (0, stat.S_ISVTX) for low in range(0o1000)]
    seen = set()
    for kind, mode, uid, gid, acl in itertools.product(
        kinds, modes, (0, ADA, EVE), (0, OWN_GROUP, TEAM), (False, True)
    ):
        found = is_open(
            _status(kind, mode, uid, gid),
            user=ADA,
            private=lambda group: group in (0, OWN_GROUP),
            extended=acl,
        )
        others = bool(mode & 0o002) or bool(mode & 0o020 and (acl or gid == TEAM))
        closed = kind == stat.S_IFLNK or (kind == stat.S_IFDIR and mode & stat.S_ISVTX)
        expected = uid == EVE or (others and not closed)
        assert bool(found) == expected, (kind, oct(mode), uid, gid, acl)
        seen.add(found)
    assert seen == {"", "owner", "mode", "acl"}


def test_a_group_is_private_when_nobody_else_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    def person(name: str, uid: int, gid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))

    people = [person("root", 0, 0), person("ada", ADA, 1001), person("eve", EVE, 1002)]
    people.append(person("bob", 1003, 1001 + 9))
    groups = {
        0: ("root", []),
        1001: ("ada", []),
        1002: ("eve", []),
        1010: ("ada2", ["ada"]),
        1020: ("shared", ["ada", "eve"]),
        1021: ("alone", ["ada"]),
        1022: ("nobody-listed", []),
        1023: ("with-root", ["ada", "root"]),
    }

    def group(gid: int) -> grp.struct_group:
        name, members = groups[gid]
        return grp.struct_group((name, "x", gid, members))

    monkeypatch.setattr(pwd, "getpwall", lambda: people)
    monkeypatch.setattr(pwd, "getpwuid", {one.pw_uid: one for one in people}.__getitem__)
    monkeypatch.setattr(grp, "getgrgid", group)
    private = {gid for gid in (*groups, 7777) if is_private_group(gid, ADA)}
    assert private == {0, 1001, 1021, 1023}, "1010 is somebody else's own group"
    people.append(person("ops", 1004, 0))
    assert not is_private_group(0, ADA), "one more is in the group of root"


def _places(tmp_path: Path) -> tuple[Path, dict[str, Path]]:
    """A file reached by links: one in its folder, one to a folder, a relative one above that."""
    real = tmp_path / "real" / "deep"
    real.mkdir(parents=True)
    (real / "file").write_text("")
    (real / "file").chmod(0o644)
    links = tmp_path / "links"
    links.mkdir()
    (links / "folder").symlink_to(real)
    (links / "up").symlink_to("../links/folder")
    named = {
        "file": real / "file",
        "its folder": real,
        "the folder above": real.parent,
        "the folder of the link": links,
    }
    return links / "up" / "file", named


def test_a_file_is_trusted_with_all_that_leads_to_it(tmp_path: Path) -> None:
    path, named = _places(tmp_path)
    assert distrust(path) is None
    for name, place in named.items():
        before = stat.S_IMODE(place.stat().st_mode)
        for mode in (before | 0o002, before | 0o022):
            place.chmod(mode)
            found = distrust(path)
            assert found is not None, name
            assert found.reason == f"other users may write to {str(place)!r}"
            subprocess.run(shlex.split(found.remedy), check=True)
            assert distrust(path) is None, found.remedy
        if place.is_dir():
            place.chmod(0o1777)
            assert distrust(path) is None, "nobody replaces in a sticky folder what is another's"
        place.chmod(before)
    assert distrust(tmp_path / "links" / "up" / "absent") is None, "nothing is there to believe"
    (tmp_path / "round").symlink_to("round")
    assert distrust(tmp_path / "round" / "file") is None, "nothing can be read there"


@only_root
def test_what_another_user_owns_is_not_trusted(tmp_path: Path) -> None:
    path, named = _places(tmp_path)
    link = tmp_path / "links" / "up"
    for place in (*named.values(), link):
        os.chown(place, 12_345, -1, follow_symlinks=False)
        found = distrust(path)
        assert found is not None
        assert found.reason == f"{str(place)!r} belongs to another user (12345)"
        subprocess.run(shlex.split(found.remedy), check=True)
        assert distrust(path) is None, found.remedy
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "theirs").write_text("")
    assert distrust(sticky / "theirs") is None
    os.chown(sticky / "theirs", 12_345, -1)
    assert distrust(sticky / "theirs") is not None


def test_the_error_is_one_sentence_with_a_command(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("")
    file.chmod(0o666)
    with pytest.raises(ConfigError) as caught:
        must_be_trusted(file, ConfigError)
    assert str(caught.value) == (
        f"{str(file)!r} is not trusted: other users may write to {str(file)!r}."
        f" Fix it with: chmod go-w '{file}'"
    )
    assert caught.value.exit_code == 2


def _settings(folder: Path) -> Path:
    (folder / "operator.toml").write_text('mode = "observe"\n')
    load_config(flags={"home": str(folder / "home")}, environ={}, cwd=folder)
    return folder / "operator.toml"


def _policy(folder: Path) -> Path:
    file = folder / "policy.yaml"
    if not file.exists():
        file.write_text("version: 1\n")
    flags = {"home": str(folder / "home"), "policy": str(file)}
    policy_file(load_config(flags=flags, environ={}, cwd=folder)).book()
    return file


def _key(folder: Path) -> Path:
    load_key(folder / "ledger.key")
    return folder / "ledger.key"


def _secret(folder: Path) -> Path:
    if not (folder / "token").exists():
        (folder / "token").write_text("hush")
    assert read_secret(str(folder / "token")) == "hush"
    return folder / "token"


def _home(folder: Path) -> Path:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "operator.db").touch()
    config = load_config(flags={"home": str(home)}, environ={}, cwd=folder)
    open_secrets(config).all()
    return home


def _database(folder: Path) -> Path:
    return _home(folder) / "operator.db"


@pytest.mark.parametrize(
    "use", [_settings, _policy, _key, _secret, _home, _database], ids=lambda use: use.__name__
)
def test_each_file_that_decides_is_believed_only_when_closed(
    use: Callable[[Path], Path], tmp_path: Path
) -> None:
    file = use(tmp_path)
    for place in (file, tmp_path):
        before = stat.S_IMODE(place.stat().st_mode)
        place.chmod(before | 0o002)
        with pytest.raises(Exception, match=r"is not trusted: .* chmod go-w"):
            use(tmp_path)
        place.chmod(before)
    assert use(tmp_path) == file


def test_a_plug_in_that_others_can_write_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "openly-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nopenly = openly_made.inside:plugin\n")
    package = tmp_path / "openly_made"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('it was run')\n")
    (package / "inside.py").write_text("")
    (package / "beside.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    entry_points = info / "entry_points.txt"
    for place in (package, info, entry_points, *package.iterdir(), tmp_path):
        before = stat.S_IMODE(place.stat().st_mode)
        place.chmod(before | 0o002)
        with pytest.raises(MissingPluginError, match="is not trusted"):
            find_plugin("openly")
        place.chmod(before)


def test_a_key_that_others_can_replace_is_not_used(tmp_path: Path) -> None:
    load_key(tmp_path / "ledger.key")
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError, match="is not trusted"):
        load_key(tmp_path / "ledger.key")
    tmp_path.chmod(0o700)
