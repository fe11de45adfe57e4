"""Checks that only the user and root can change or replace a file; any other is not trusted.

Settings, policies, plug-ins and keys decide what Operator does. Each is trusted only when no other
user can write to it, to a folder on the way to it, or to a link that leads there.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operator_protocols.errors import OperatorError

__all__ = ["Distrust", "distrust", "is_open", "is_private_group", "must_be_trusted"]

LINKS_MAX = 40  # the limit of the kernel
ROOT = 0
_ACL = "system.posix_acl_access"


@dataclass(frozen=True, slots=True)
class Distrust:
    """Why a path is not trusted, and the command that changes that."""

    reason: str
    remedy: str


def must_be_trusted(path: Path, error: type[OperatorError], *, of_any_user: bool = False) -> None:
    """Raise `error` when another user could change the file.

    With `of_any_user` root accepts the owner of the file, such as the user that runs a server.
    """
    user = path.stat().st_uid if of_any_user and os.geteuid() == ROOT and path.exists() else None
    if found := distrust(path, user):
        raise error(
            f"{str(path)!r} is not trusted: {found.reason}.",
            next_step=f"Fix it with: {found.remedy}",
        )


def distrust(path: Path, user: int | None = None) -> Distrust | None:
    """Why another user could change a path; None when only the user and root can.

    Without `user` it is the user of this process. Every folder from the root on counts, and every
    link on the way: its folder, and its target. A path that does not exist is judged by the folders
    that do.
    """
    left = list(reversed(path.absolute().parts))
    here = Path(left.pop())
    links = 0
    try:
        if found := _distrust_of(here, here.lstat(), user):
            return found
        while left:
            name = left.pop()
            if name == "..":
                here = here.parent
                continue
            place = here / name
            status = place.lstat()
            if stat.S_ISCHR(status.st_mode):
                return None  # /dev/null, for example, stores nothing
            if found := _distrust_of(place, status, user):
                return found
            if not stat.S_ISLNK(status.st_mode):
                here = place
                continue
            links += 1
            if links > LINKS_MAX:
                return None  # a circle of links cannot be read
            target = place.readlink()
            parts = list(reversed(target.parts))
            if target.is_absolute():
                here = Path(parts.pop())
            left += parts
    except OSError:
        return None  # nothing there can be read
    return None


def is_open(
    status: os.stat_result, *, user: int, private: Callable[[int], bool], extended: bool = False
) -> str:
    """How others may change one file or folder: `owner`, `acl`, `mode`, or "". Pure.

    The mode of a link means nothing. In a sticky folder only owners move or replace files, so it
    counts as closed, and each file in it is judged by its own owner.
    """
    if status.st_uid not in (ROOT, user):
        return "owner"
    mode = status.st_mode
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return ""
    if mode & stat.S_IWOTH:
        return "mode"
    if mode & stat.S_IWGRP and extended:
        return "acl"  # the bit of the group is then the mask of the access control list
    return "mode" if mode & stat.S_IWGRP and not private(status.st_gid) else ""


def is_private_group(gid: int, user: int) -> bool:
    """True for a group with no members but the user and root."""
    import grp
    import pwd

    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = ""  # a container may run as a number without a name
    primary: Iterable[str] = (each.pw_name for each in pwd.getpwall() if each.pw_gid == gid)
    members = {*group.gr_mem, *primary}
    if members - {name, pwd.getpwuid(ROOT).pw_name}:
        return False
    # Directories without a listing cannot show who else is in a shared group.
    return gid == ROOT or name in members or group.gr_name == name


def _distrust_of(path: Path, status: os.stat_result, given: int | None) -> Distrust | None:
    user = os.geteuid() if given is None else given
    extended = False
    if status.st_mode & stat.S_IWGRP and not stat.S_ISLNK(status.st_mode):
        with suppress(AttributeError, OSError):  # the file or the system has no such list
            extended = bool(os.getxattr(path, _ACL))
    how = is_open(
        status, user=user, private=lambda gid: is_private_group(gid, user), extended=extended
    )
    quoted = shlex.quote(str(path))
    if how == "owner":
        why = f"{str(path)!r} belongs to another user ({_name(status.st_uid)})"
        flag = "-h " if stat.S_ISLNK(status.st_mode) else ""
        return Distrust(why, f"chown {flag}{_name(user)} {quoted}")
    if how == "acl":
        why = f"an access control list lets others write to {str(path)!r}"
        return Distrust(why, f"setfacl -b {quoted}")
    if how:
        return Distrust(f"other users may write to {str(path)!r}", f"chmod go-w {quoted}")
    return None


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
