"""Reads that would show secrets: whole configurations, values without their names, their files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from tests.every import expect_each

POLICY = Policy()


def is_safe(command: str) -> bool:
    """Whether a command line runs by itself when a person asks."""
    return judge(Action.shell(command), POLICY, person=True).level is Level.SAFE


def expect_review(command: str) -> None:
    assert not is_safe(command)


def expect_safe(command: str) -> None:
    assert is_safe(command)


READERS = (
    "cat {}",
    "head -5 {}",
    "grep -n . {}",
    "sed -n 1,5p {}",
    "awk 1 {}",
    "sort < {}",
    "od {}",
)
FILES = (
    *("/etc/postgresql/16/main/pg_service.conf", "/etc/pgbouncer/userlist.txt", "/home/a/.pgpass"),
    "/srv/db/owner.pgpass",
    *("/etc/mysql/my.cnf", "/etc/my.cnf", "/etc/redis/redis.conf", "/etc/redis/users.acl"),
    *(
        "/etc/redis/sentinel.conf",
        "/etc/rabbitmq/rabbitmq.conf",
        "/var/lib/rabbitmq/.erlang.cookie",
    ),
    *("/etc/consul.d/consul.hcl", "/etc/vault.d/vault.hcl", "/etc/nomad.d/nomad.hcl"),
    *("/etc/grafana/grafana.ini", "/var/lib/grafana/grafana.db", "/etc/haproxy/haproxy.cfg"),
    *("/opt/tomcat/conf/tomcat-users.xml", "/etc/nginx/.htpasswd", "/etc/nginx/htpasswd"),
    *(
        "/etc/kubernetes/admin.conf",
        "/etc/kubernetes/pki/etcd/server.key",
        "/etc/rancher/k3s/k3s.yaml",
    ),
    *(
        "/var/lib/jenkins/secrets/master.key",
        "/var/lib/jenkins/credentials.xml",
        "/etc/etcd/etcd.conf",
    ),
    *(
        "/var/lib/jenkins/secret.key",
        "/etc/ceph/ceph.client.admin.keyring",
        "/etc/gitlab/gitlab.rb",
    ),
    *(
        "/etc/alertmanager/alertmanager.yml",
        "/etc/snmp/snmpd.conf",
        "/etc/keepalived/keepalived.conf",
    ),
    *("/etc/ldap/slapd.conf", "/etc/freeradius/3.0/clients.conf", "/srv/app/config/database.yml"),
    *("/etc/patroni/patroni.yml", "/srv/kubeconfig", "/home/a/.config/helm/repositories.yaml"),
    *("/etc/bind/rndc.key", "/etc/munge/munge.key", "/etc/samba/smbpasswd", "/etc/nut/upsd.users"),
)


def reads() -> Iterator[tuple[str]]:
    for form, file in product(READERS, FILES):
        folder, _, name = file.rpartition("/")
        yield (form.format(file),)
        yield (f"cd {folder} && {form.format(name)}",)
        yield (form.format(f"{folder}/./{name[:3]}*"),)


def test_files_with_the_credentials_of_servers_are_not_shown() -> None:
    expect_each(reads(), expect_review)


KINDS = ("pod web", "pods -A", "deploy/web", "cm app", "configmap", "statefulset x", "job x", "ds")
TEMPLATES = (
    *("jsonpath='{.spec.containers[*].env[*].value}'", "jsonpath='{..value}'", "jsonpath={.data}"),
    *("jsonpath='{.items[*].data.password}'", "jsonpath='{.spec.*}'", 'jsonpath="{..env}"'),
    *("custom-columns=A:.data.x", "custom-columns=V:.spec.containers[*].env[*].value"),
    *("go-template='{{range $k, $v := .data}}{{$v}}{{end}}'", "jsonpath=\"{['data']['x']}\""),
    *("go-template='{{range $k,$v := .}}{{$v}}{{end}}'", "jsonpath-as-json='{.binaryData}'"),
)
TAKERS = (
    *("jq '.items[].spec.containers[].env[].value'", "jq -r '.data[]'", "jq '.. | strings'"),
    *("jq '[paths]'", "jq 'to_entries'", "jq '.spec | tostream'", "grep value:", "grep -i 'data'"),
    *("awk '{print $2}'", "cut -d: -f2", "sed 's/.*: //'", "tr : '\\n'", "sort", "rev", "base64"),
    *("head -50 | awk '{print $2}'", "cat | cut -c9-", "xxd", "fold -w 3", "uniq -c | sort -rn"),
)
WHOLE = (
    *("kubectl get pod web -o yaml", "kubectl get cm -A -ojson", "oc get pods --output=yaml"),
    *("docker inspect web", "podman inspect web", "systemctl show web", "helm get manifest web"),
)


def shown() -> Iterator[tuple[str]]:
    for kind, template in product(KINDS, TEMPLATES):
        yield (f"kubectl get {kind} -o {template}",)
        yield (f"kubectl get {kind} --output={template}",)
        yield (f"kubectl get {kind} -n web -o={template}",)
    for whole, taker in product(WHOLE, TAKERS):
        yield (f"{whole} | {taker}",)
        yield (f"{whole} 2>/dev/null | head -100 | {taker}",)


def test_values_are_not_shown_without_the_names_that_tell_they_are_secret() -> None:
    expect_each(shown(), expect_review)


def test_credentials_of_a_cluster_are_not_shown() -> None:
    options = ("--flatten", "--raw", "--flatten=true", "--raw=true", "--flatten=false")
    places = (
        "kubectl config view {}",
        "kubectl config view --minify {} -o json",
        "oc config view {}",
    )
    expect_each(((one.format(option),) for one, option in product(places, options)), expect_review)


USEFUL = (
    *("kubectl get pods -o jsonpath='{.items[*].metadata.name}'", "kubectl get pod web -o yaml"),
    *("kubectl get pods -o json | jq -r '.items[].metadata.name'", "kubectl config view --minify"),
    *("kubectl get deploy web -o yaml | grep image:", "docker inspect web | head -40"),
    *(
        "kubectl get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName",
        "docker inspect x",
    ),
    *(
        "docker inspect -f '{{.State.Status}}' web | sort",
        "journalctl -u web -o json | jq .MESSAGE",
    ),
    *("curl -s http://localhost:9090/api/v1/query?query=up | jq '.data.result[].value'",),
    *("systemctl show web -p MainPID --value", "cat /etc/nginx/nginx.conf", "cat /etc/hosts"),
)


def test_what_is_looked_at_every_day_stays_safe() -> None:
    expect_each(zip(USEFUL, strict=True), expect_safe)
