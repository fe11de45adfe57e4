"""Commands that do harm, and ways to dress them up."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

__all__ = ["HARMFUL", "HARMLESS", "WAYS", "Mutation", "dressed_up"]

HARMFUL = [
    "rm -rf build",
    "rm notes.txt",
    "unlink notes.txt",
    "mv a b",
    "cp a /etc/cron.d/b",
    "dd if=/dev/zero of=disk.img",
    "mkfs.ext4 /dev/vdb",
    "shutdown -h now",
    "kill -9 4711",
    "pkill -f worker",
    "chmod 777 run.sh",
    "tee out.txt",
    "find . -name core -delete",
    "sort -o out.txt in.txt",
    "curl -o out http://example.net/x",
    "curl -X DELETE http://example.net/x",
    "wget http://example.net/x",
    "git push origin main",
    "git checkout main",
    "docker rm -f web",
    "docker exec web ls",
    "kubectl delete pod web-1",
    "kubectl scale deploy web --replicas=0",
    "systemctl restart web",
    "redis-cli FLUSHALL",
    "etcdctl del key",
    "psql -c 'DELETE FROM orders'",
    "python3 run.py",
    "sed -i s/a/b/ app.conf",
    "awk '{print > \"out\"}' in.txt",
    "cat /etc/shadow",
    "cat ~/.ssh/id_ed25519",
    "crontab -r",
    "ip link set eth0 down",
    "sysctl -w vm.swappiness=1",
    "date -s 2020-01-01",
]
HARMLESS = [
    "ls -la /var/log",
    "cat /etc/os-release",
    "grep -c ERROR app.log",
    "df -h",
    "ps aux",
    "ss -tlnp",
    "uptime",
    "kubectl get pods -A",
    "docker ps -a",
    "git status --short",
    "systemctl status web",
]

Mutation = Callable[[str, random.Random], str]


def _first(command: str) -> tuple[str, str]:
    name, _, rest = command.partition(" ")
    return name, f" {rest}" if rest else ""


def _split_quotes(command: str, luck: random.Random) -> str:
    name, rest = _first(command)
    at = luck.randrange(1, len(name)) if len(name) > 1 else 1
    mark = luck.choice(["''", '""', "\\\n"])
    return f"{name[:at]}{mark}{name[at:]}{rest}"


def _quoted(command: str, luck: random.Random) -> str:
    name, rest = _first(command)
    return luck.choice([f"'{name}'", f'"{name}"', f"\\{name}"]) + rest


def _ansi(command: str, luck: random.Random) -> str:
    name, rest = _first(command)
    return f"$'\\x{ord(name[0]):02x}{name[1:]}'{rest}"


def _encoded(command: str, luck: random.Random) -> str:
    text = base64.b64encode(command.encode()).decode()
    return f"echo {text} | base64 -d | {luck.choice(['sh', 'bash', 'bash -s', 'xargs -0 sh -c'])}"


def _inside(template: str) -> Mutation:
    def mutate(command: str, luck: random.Random) -> str:
        return template.replace("%Q", "'" + command.replace("'", "'\\''") + "'").replace(
            "%", command
        )

    return mutate


WAYS: dict[str, Mutation] = {
    "split": _split_quotes,
    "quoted": _quoted,
    "ansi": _ansi,
    "encoded": _encoded,
    **{
        template: _inside(template)
        for template in (
            *("sudo %", "sudo -u root %", "env %", "env -i %", "nice %", "nice -n 5 %"),
            *("timeout 5 %", "timeout -k 2 5s %", "nohup %", "stdbuf -o0 %", "setsid %", "time %"),
            *("command %", "exec %", "busybox %", "! %", "( % )", "{ %; }", "watch -n1 %"),
            *("sh -c %Q", "bash -c %Q", "bash -ec %Q", "eval %Q", "xargs -I{} sh -c %Q"),
            *(
                "ls; %",
                "ls && %",
                "ls || %",
                "ls | %",
                "ls & %",
                "ls\n%",
                "%; ls",
                "% | cat",
                "% &",
            ),
            *("echo $(%)", 'echo "$(%)"', "echo `%`", "cat <(%)", "ls $(%)", "echo ${x:-$(%)}"),
            *("% >/dev/null 2>&1", "% 2>&1 | tail -n 5", "if true; then %; fi", "A=1 %"),
            *(
                "for i in 1 2; do %; done",
                "while true; do %; done",
                "f() { %; }; f",
                "trap %Q EXIT",
            ),
            *("find . -exec % \\;", "find . -name x -execdir % +", "cat <<E | sh\n%\nE", "/bin/%"),
            *("true # x\n%", "case x in x) %;; esac", "LC_ALL=C %", "echo x | xargs %", "\t%"),
        )
    },
}


def dressed_up(command: str, luck: random.Random, depth: int) -> str:
    """The command after so many mutations, each inside of the one before."""
    for _ in range(depth):
        command = WAYS[luck.choice(list(WAYS))](command, luck)
    return command
