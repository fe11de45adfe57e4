"""Write one value into a file of settings, whatever its format is."""

from __future__ import annotations

import json
import re
from pathlib import Path

__all__ = ["replace_port", "write_setting"]


def write_setting(file: Path, name: str, value: str) -> None:
    """Change or add a value; the file stays the same one, of the same user."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        table = json.loads(text)
        table[name] = _json_value(value)
        changed = json.dumps(table, indent=1) + "\n"
    else:
        separator, quote = _format_of(file, text)
        given = value if not quote or _is_plain(value) else f"{quote}{value}{quote}"
        line = f"{name}{separator}{given}"
        pattern = re.compile(rf"^\s*{re.escape(name)}\s*(?:[=:]|\s).*$", re.MULTILINE)
        # The first one is replaced, so that a file stays valid where a key may be there once.
        changed, count = pattern.subn(lambda match: line, text, count=1)
        if not count:
            changed = _add_line(file, text, line)
    with file.open("r+", encoding="utf-8") as handle:
        handle.write(changed)
        handle.truncate()


def replace_port(file: Path, old: int, new: int) -> bool:
    """Let a part listen elsewhere than its clients and peers think; False where none is named."""
    text = file.read_text(encoding="utf-8")
    changed, count = re.subn(rf"(?<!\d){old}(?!\d)", str(new), text)
    if count:
        with file.open("r+", encoding="utf-8") as handle:
            handle.write(changed)
            handle.truncate()
    return bool(count)


def _format_of(file: Path, text: str) -> tuple[str, str]:
    """What stands between a name and its value, and how a text is quoted."""
    if file.suffix in (".yaml", ".yml"):
        return ": ", '"'
    if file.suffix == ".toml":
        return " = ", '"'
    if file.suffix == ".properties":  # quotes would belong to the value
        return "=", ""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if sum("=" in line for line in lines) * 2 > len(lines):
        return " = ", "'"
    return " ", '"'


def _add_line(file: Path, text: str, line: str) -> str:
    if file.suffix == ".toml":  # a key after a table would belong to it
        return f"{line}\n{text}"
    return f"{text.rstrip()}\n{line}\n"


def _is_plain(value: str) -> bool:
    return bool(re.fullmatch(r"-?[\d.]+|true|false|on|off|yes|no", value))


def _json_value(value: str) -> object:
    try:
        found: object = json.loads(value)
    except ValueError:
        return value
    return found
