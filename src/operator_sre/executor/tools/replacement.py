"""Files replaced whole: nothing is followed, nothing is half written, and what was is kept."""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ABSENT", "FILE_BYTES_MAX", "Kept", "Place", "State", "open_place"]

FILE_BYTES_MAX = 1_000_000
KEPT_MAX = 500
# Stands for the hash of a file that is not there.
ABSENT = "absent"
NEW_MODE = 0o644
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class State:
    """All that is put back: what a file holds, its mode and its owner. None is no file at all."""

    content: bytes | None
    mode: int = NEW_MODE
    uid: int = -1
    gid: int = -1
    stamp: tuple[int, ...] = ()

    @property
    def sha256(self) -> str:
        """The hash of what it holds."""
        return ABSENT if self.content is None else hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class Place:
    """One name in a folder that is held open, so that the folder cannot be swapped."""

    folder: int
    name: str
    path: str

    def open(self) -> int:
        """The file for reading; only a regular one, and never through a link."""
        try:
            file = os.open(self.name, _FILE, dir_fd=self.folder)
        except OSError as error:
            raise _explain(self.path, error) from None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise _trouble(f"{self.path!r} is not a regular file.", errno.EINVAL)
        return file

    def state(self) -> State:
        """What is there now."""
        try:
            file = self.open()
        except FileNotFoundError:
            return State(None)
        with os.fdopen(file, "rb") as stream:
            found = os.fstat(file)
            content = stream.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise _trouble(
                f"{self.path!r} is larger than {FILE_BYTES_MAX / 1e6:g} MB.", errno.EFBIG
            )
        if found.st_nlink > 1:
            raise _trouble(f"{self.path!r} has other hard links, which would keep the old text.")
        mode = stat.S_IMODE(found.st_mode)
        return State(content, mode, found.st_uid, found.st_gid, _stamp(found))

    def put(self, new: State, old: State) -> None:
        """Replace `old` by `new` in one step; refused when it is not `old` that is there."""
        if new.content is None:
            self._expect(old)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self.folder)
            return
        beside = f".operator-{secrets.token_hex(8)}"
        try:
            assert new.content is not None
            file = os.open(beside, _NEW, 0o600, dir_fd=self.folder)
            with os.fdopen(file, "wb") as stream:
                stream.write(new.content)
                stream.flush()
                if old.content is not None:
                    self._pass_on_attributes(file)
                # The owner first: giving a file away clears bits of its mode.
                made = os.fstat(file)
                if new.uid >= 0 and (new.uid, new.gid) != (made.st_uid, made.st_gid):
                    os.fchown(file, new.uid, new.gid)
                # New content must not run with the rights of the owner.
                os.fchmod(file, new.mode & 0o777)
                os.fsync(file)
            self._expect(old)
            os.replace(beside, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except OSError as error:
            raise _explain(self.path, error) from None
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=self.folder)
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.folder)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _pass_on_attributes(self, file: int) -> None:
        """Access lists and labels go along, as far as the file system has them."""
        if not hasattr(os, "listxattr"):
            return
        old = self.open()
        try:
            for name in os.listxattr(old):
                # A label that the system gives by itself may not be set by us, and is there anyway.
                with contextlib.suppress(OSError):
                    os.setxattr(file, name, os.getxattr(old, name))
        except OSError:  # a file system without any
            return
        finally:
            os.close(old)

    def _expect(self, old: State) -> None:
        try:
            now = _stamp(os.stat(self.name, dir_fd=self.folder, follow_symlinks=False))
        except FileNotFoundError:
            now = ()
        if now != old.stamp:
            raise _trouble(f"{self.path!r} was changed by another process meanwhile.")


@contextmanager
def open_place(path: str) -> Iterator[Place]:
    """The place of an absolute path, each folder opened in its parent and none through a link."""
    first, *folders, name = path.split("/") if "/" in path else ("?", path)
    if first or "\0" in path or any(each in ("", ".", "..") for each in folders):
        raise _trouble("The path must be absolute, without '..', '.' or '//'.", errno.EINVAL)
    if not path.isprintable() and _is_no_name(path):
        raise _trouble("The path is not a valid file name.", errno.EINVAL)
    if name in ("", ".", ".."):
        raise _trouble("The path must name a file.", errno.EINVAL)
    folder = os.open("/", _FOLDER)
    try:
        for part in folders:
            try:
                inner = os.open(part, _FOLDER, dir_fd=folder)
            except OSError as error:
                raise _explain(path, error) from None
            os.close(folder)
            folder = inner
        yield Place(folder, name, path)
    finally:
        os.close(folder)


def _is_no_name(path: str) -> bool:
    """True for letters that no file system has: halves of a character."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return True
    return False


class Kept:
    """What files held before they were replaced, readable by the operator only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, path: str, state: State) -> str:
        """Write it down, durably; the id brings it back."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        for oldest in found[: max(0, len(found) - KEPT_MAX + 1)]:
            oldest.unlink(missing_ok=True)
        id = secrets.token_hex(16)
        content = None if state.content is None else base64.b64encode(state.content).decode()
        document = {
            "path": path,
            "content": content,
            "mode": state.mode,
            "uid": state.uid,
            "gid": state.gid,
        }
        file = os.open(self._folder / f"{id}.json", _NEW, 0o600)
        with os.fdopen(file, "w") as stream:
            json.dump(document, stream)
            stream.flush()
            os.fsync(file)
        return id

    def load(self, id: str, path: str) -> State:
        """What was kept of this path under this id."""
        if not _ID.fullmatch(id):
            raise _trouble("This is not the id of a backup.", errno.EINVAL)
        try:
            document = json.loads((self._folder / f"{id}.json").read_text())
            content = document["content"]
            held = None if content is None else base64.b64decode(content, validate=True)
            state = State(held, document["mode"], document["uid"], document["gid"])
        except (OSError, ValueError, KeyError, TypeError, binascii.Error):
            why = f"The backup {id!r} is missing or damaged."
            raise _trouble(why, errno.ENOENT) from None
        if document["path"] != path:
            raise _trouble(f"The backup {id!r} belongs to another file.", errno.EINVAL)
        return state


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _trouble(sentence: str, number: int = 0) -> OSError:
    """An error of the system with a sentence of ours."""
    return OSError(number, sentence)


def _explain(path: str, error: OSError) -> OSError:
    number = error.errno or 0
    if number == errno.ELOOP:
        return _trouble(f"{path!r} is a symbolic link: name its target instead.", number)
    if number == errno.ENOTDIR:
        why = (
            f"{path!r} contains a symbolic link or something that is not a directory: name the "
            "file itself."
        )
        return _trouble(why, number)
    if (error.strerror or "").endswith("."):
        return error  # it is a sentence of ours already
    return _trouble(f"{path!r}: {error.strerror or error}.", number)
