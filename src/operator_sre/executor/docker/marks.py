"""End a program and all that came of it inside of a container, whose engine has no verb for that.

Every program is started with a mark in its environment, which its children inherit. What carries
the mark, shares a session with such a process, or descends from one, is ended by a small script
that needs a shell and `cat` in the container, and is run as the user of the program first.
"""

from __future__ import annotations

import asyncio
import re
import secrets

from operator_sre.executor.docker.answers import Created
from operator_sre.executor.docker.engine import Engine, EngineError
from operator_sre.executor.docker.frames import Frames

__all__ = ["end_marked", "new_mark"]

MARK = "OPERATOR_SRE_EXEC"
GRACE_S = 1.0
END_S_MAX = 10.0
SAID_BYTES_MAX = 64 * 1024
_LAST = re.compile(r"^left([ 0-9]*);([ 0-9]*)$", re.MULTILINE)

# Arguments: the mark, the tenths of a second after TERM, and sessions that are known already.
_SCRIPT = """
mark=$1 tenths=$2; shift 2; sessions=" $* "
look() {
  pids=
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    { read -r line <"$folder/stat"; } 2>/dev/null || continue
    set -- ${line##*) }
    [ "$1" = Z ] || [ "$pid" = 1 ] || [ "$4" = $$ ] && continue
    case "$sessions" in
      *" $4 "*) ;;
      *) case "$(cat "$folder/environ" 2>/dev/null)" in
           *"$mark"*) [ "$4" = 0 ] || sessions="$sessions$4 " ;;
           *) case "$pids " in *" $2 "*) ;; *) continue ;; esac ;;
         esac ;;
    esac
    pids="$pids $pid"
  done
}
look; look
[ -z "$pids" ] || kill -TERM $pids 2>/dev/null
count=0
while look; [ -n "$pids" ] && [ $count -lt $tenths ]; do
  sleep 0.1 2>/dev/null || sleep 1; count=$((count + 1))
done
count=0
while look; [ -n "$pids" ] && [ $count -lt 30 ]; do
  kill -KILL $pids 2>/dev/null; sleep 0.02 2>/dev/null || sleep 1; count=$((count + 1))
done
echo "left$pids;$sessions"
"""


def new_mark() -> str:
    """A mark that no other program has, as a variable of its environment."""
    return f"{MARK}={secrets.token_hex(16)}"


async def end_marked(engine: Engine, container: str, mark: str, *, user: str) -> str:
    """End all that carries the mark; why something may be left, or ""."""
    try:
        async with asyncio.timeout(END_S_MAX):
            output = await _run(engine, container, mark, user, "")
            if output is None:
                return "The container has no shell to stop the command with."
            pids, sessions = output
            if pids:  # it became another user: only root can end that
                output = await _run(engine, container, mark, "0", sessions)
            if output is None or output[0]:
                return f"Processes{pids} in the container could not be killed."
            return ""
    except TimeoutError:
        return f"The command could not be stopped within {END_S_MAX:g} s."
    except EngineError as error:
        return f"The command could not be stopped: {error.message}"


async def _run(
    engine: Engine, container: str, mark: str, user: str, sessions: str
) -> tuple[str, str] | None:
    tenths = str(int(GRACE_S * 10)) if not sessions else "0"
    body = {
        "Cmd": ["/bin/sh", "-c", _SCRIPT, "sh", mark, tenths, *sessions.split()],
        "AttachStdout": True,
        "User": user,
        "WorkingDir": "/",
    }
    made = await engine.ask("POST", f"/containers/{container}/exec", body=body)
    if not made.ok:
        return None
    begin = {"Detach": False, "Tty": False}
    path = f"/exec/{made.read(Created).id}/start"
    output = bytearray()
    frames = Frames(is_plain=False)
    async with engine.stream("POST", path, body=begin, timeout_s=END_S_MAX) as (_, chunks):
        async for chunk in chunks:
            for _, piece in frames.feed(chunk):
                output += piece
            if len(output) > SAID_BYTES_MAX:
                break
    found = _LAST.search(output.decode("ascii", "replace"))
    return (found[1], found[2]) if found else None
