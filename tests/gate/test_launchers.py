"""Programs that run code of the directory they are called in, even when asked for their version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from tests.every import expect_each

POLICY = Policy()
LAUNCHERS = (
    *("./mvnw", "mvnw", "mvn", "./gradlew", "gradlew", "gradle", "npx", "bunx", "pipx", "uvx"),
    *("cargo", "rustc", "rustup", "rustfmt", "bundle", "bundler", "composer", "dotnet", "yarn"),
    *("pnpm", "corepack", "bazel", "bazelisk", "sbt", "lein", "irb", "pry", "luarocks", "conan"),
    *("vagrant", "poetry", "pipenv", "tox", "pre-commit", "direnv", "asdf", "mise", "pyenv"),
    *("rbenv", "nvm", "hg", "jj", "terragrunt plan", "terraform validate", "terraform show"),
    *("terraform graph", "terraform providers schema", "tofu validate", "./x", "bin/rails"),
    *("node_modules/.bin/eslint", "vendor/bin/phpunit", "~/.local/bin/x", "make -n", "make -f x"),
    *(
        "npm run",
        "npm exec",
        "npm config list",
        "helmfile list",
        "kustomize build",
        "pulumi preview",
    ),
    *("elixir", "iex", "mix", "elixirc"),
    *("ansible-inventory --list", "cdk", "serverless", "nix", "rails", "pdm", "hatch", "nox"),
)
ASKED = ("--version", "-V", "-v", "version", "--help --version", "-q --version", "status", "")


def calls() -> Iterator[tuple[str]]:
    for launcher, asked in product(LAUNCHERS, ASKED):
        line = f"{launcher} {asked}".strip()
        yield (line,)
        yield (f"timeout 5 {line}",)
        yield (f"cd /srv/app && {line} 2>&1 | head -1",)


def test_what_a_directory_holds_is_not_run_for_its_version() -> None:
    def is_not_safe(command: str) -> None:
        assert judge(Action.shell(command), POLICY, person=True).level is not Level.SAFE

    expect_each(calls(), is_not_safe)


# They read settings, or load code, from the working directory before they look elsewhere.
LOCAL = (
    *("supervisorctl status", "supervisorctl pid all", "supervisorctl tail web"),
    *("repmgr cluster show", "repmgr node status", "rabbitmqctl status", "rabbitmqctl list_queues"),
    *("rabbitmq-diagnostics ping", "rabbitmq-queues quorum_status q", "rabbitmq-plugins list -e"),
)
FOREIGN = ("/tmp", "/srv/app", "/home/web", "/var/tmp", "/tmp/../srv", "/etc/../tmp")
OWN = ("/", "/root", "/etc/supervisor", "/usr/share")


def test_settings_of_the_working_directory_count_only_where_the_system_wrote_them() -> None:
    def level_in(cwd: str, command: str) -> Level:
        return judge(replace(Action.shell(command), cwd=cwd), POLICY, person=True).level

    for command in LOCAL:
        for cwd in FOREIGN:
            assert level_in(cwd, command) is not Level.SAFE, (cwd, command)
            moved = f"cd {cwd} && {command}"
            assert level_in("/", moved) is not Level.SAFE, moved
            assert level_in("/", f"cd {cwd}; timeout 5 {command} | head") is not Level.SAFE
        for cwd in OWN:
            assert level_in(cwd, command) is Level.SAFE, (cwd, command)


def test_what_runs_nothing_of_a_directory_tells_its_version() -> None:
    def is_safe(command: str) -> None:
        verdict = judge(Action.shell(command), POLICY, person=True)
        assert verdict.level is Level.SAFE, verdict.explanation

    told = ("go version", "python3 --version", "node -v", "java -version", "terraform version")
    more = ("make --version", "gcc --version", "npm -v", "ruby -v", "cabal --version")
    expect_each(zip((*told, *more), strict=True), is_safe)
