"""Asking a server over HTTP: administration by GET and answers full of secrets are not SAFE."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from tests.every import expect_each

POLICY = Policy()
FORMS = (
    *("curl -s 'http://localhost:8080{}'", "wget -qO- 'http://10.0.0.4:8983{}'"),
    *(
        "http -I GET 'http://localhost:9000{}'",
        "curl --url 'http://db:80{}'",
        "curl 'localhost{}' | jq .",
    ),
)
CHANGES = (
    # Solr, InfluxDB, ClickHouse, CouchDB, Elasticsearch
    *("/solr/admin/cores?action=UNLOAD&core=a", "/solr/admin/collections?action=DELETE&name=x"),
    *(
        "/solr/a/dataimport?command=full-import",
        "/solr/a/update?commit=true",
        "/solr/a/replication?command=fetchindex",
    ),
    *("/solr/a/update?stream.body=<delete><query>*:*</query></delete>", "/query?q=DROP+DATABASE+x"),
    *(
        "/query?db=a&q=SELECT+*+INTO+b+FROM+c",
        "/?query=DROP%20TABLE%20x",
        "/?query=SYSTEM+SHUTDOWN",
    ),
    *(
        "/_flush",
        "/logs/_refresh",
        "/_cache/clear",
        "/logs/_forcemerge",
        "/_shutdown",
        "/a/_delete_by_query",
    ),
    # servers of applications
    *(
        "/manager/text/undeploy?path=/a",
        "/manager/text/reload?path=/",
        "/manager/text/stop?path=/a",
    ),
    *("/manager/html/expire?path=/", "/host-manager/text/remove?name=x", "/jolokia/exec/a:b=c/gc"),
    *("/jolokia/write/a:b=c/x/1", "/actuator/shutdown", "/actuator/restart", "/actuator/refresh"),
    *("/console/runScript", "/index.html?action=restart&processname=x", "/?action=stopall"),
    *(
        "/supervisor/?processname=a&action=stop",
        "/opcache.php?reset=1",
        "/upstream_conf?remove=&id=1",
    ),
    # continuous integration
    *("/quietDown", "/restart", "/safeRestart", "/exit", "/safeExit", "/reload", "/job/x/build"),
    *("/job/x/buildWithParameters?a=b", "/job/x/doDelete", "/job/x/disable", "/job/x/1/stop"),
    *(
        "/computer/n/toggleOffline",
        "/script?script=x",
        "/queue/cancelItem?id=3",
        "/createItem?name=x",
    ),
    # proxies, meshes, monitoring, queues, clusters
    *(
        "/quitquitquit",
        "/abortabortabort",
        "/healthcheck/fail",
        "/reset_counters",
        "/runtime_modify?a=b",
    ),
    *("/drain_listeners", "/-/reload", "/-/quit", "/api/v1/admin/tsdb/delete_series?match[]=up"),
    *(
        "/v1/agent/leave",
        "/v1/agent/force-leave/n",
        "/v1/agent/join/10.0.0.9",
        "/v1/agent/check/fail/a",
    ),
    *(
        "/v1/agent/service/deregister/a",
        "/jobs/1/yarn-cancel",
        "/connectors/x/restart",
        "/kill?id=4",
    ),
    *(
        "/api/shutdown",
        "/admin/reboot",
        "/api/v1/nodes/n/drain",
        "/api/v1/users/delete?id=1",
        "/x/stop",
    ),
    *(
        "/webhdfs/v1/a?op=DELETE",
        "/webhdfs/v1/a?op=MKDIRS",
        "/cgi-bin/luci/admin/reboot",
        "/cmd?cmd=id",
    ),
    *("/api/v1/namespaces/a/pods/b/exec?command=id", "/run/ns/pod/c?cmd=id", "/x?_method=DELETE"),
    # databases, searches and proxies that are administered by plain GETs
    *("/dropcaches", "/diediedie", "/commands/srst", "/commands/set_trace_mask?traceMask=1"),
    *("/tables/shop/orders/scatter", "/set_java_loglevel?class=a", "/set_glog_level?glog=3"),
    *("/FLUSHALL", "/DEL/a", "/HSET/a/b/c", "/RPUSH/a/b", "/SLAVEOF/10.0.0.9/6379", "/BGSAVE"),
    *("/api/aliveness-test/%2F", "/fsck?path=/&move=1", "/setattribute?objectname=x"),
    *("/solr/a/select?q=x&wt=velocity&v.template=custom", "/solr/a/select?stream.url=http://db/x"),
    *("/computer/n/launchSlaveAgent", "/git/notifyCommit?url=x", "/job/x/doWipeOutWorkspace"),
    *("/job/x/polling", "/httpAuth/action.html?add2Queue=b1", "/unsubscribe?id=1", "/wp-cron.php"),
    *("/cgi-bin/cmd.cgi?cmd_typ=29&cmd_mod=2", "/cm?cmnd=Power%20off", "/relay/0?turn=on"),
    *("/cluster/failover", "/api/jobs/3/retry", "/scheduler/pause", "/api/feature/enable?name=x"),
)
SECRETS = (
    *("/consumers/a/key-auth", "/consumers/a/jwt", "/key-auths", "/jwts", "/certificates/1"),
    *("/apisix/admin/consumers", "/v1/client/fs/cat/a?path=x", "/v1/job/api", "/v1/jobs/parse"),
    *("/v1/agent/connect/ca/leaf/web", "/api/v4/projects/1/variables", "/images/a/get"),
    *("/conf", "/app/configuration", "/connectors/a/tasks-config", "/commands/snapshot"),
    *(
        "/v1/kv/app?recurse",
        "/v1/kv/",
        "/v1/acl/tokens",
        "/v1/secret/data/a",
        "/v1/auth/token/lookup-self",
    ),
    *(
        "/v1/database/creds/x",
        "/v1/sys/raw/a",
        "/v1/vars",
        "/v1/var/a",
        "/v1/snapshot",
        "/v2/keys/a",
    ),
    *(
        "/actuator/env",
        "/actuator/heapdump",
        "/actuator/configprops",
        "/actuator/env/spring.x",
        "/env",
    ),
    *("/heapdump", "/configprops", "/manage/env", "/actuator/httptrace", "/actuator/threaddump"),
    *(
        "/jolokia/read/java.lang:type=Runtime",
        "/jolokia/list",
        "/api/v1/secrets",
        "/.env",
        "/.git/config",
    ),
    *("/api/v1/namespaces/a/secrets", "/api/v1/namespaces/a/secrets/b", "/apis/x/v1/a/secrets"),
    *("/latest/meta-data/iam/security-credentials/", "/computeMetadata/v1/", "/opc/v2/instance/"),
    *("/latest/user-data", "/metadata/identity/oauth2/token", "/api/definitions", "/api/users"),
    *(
        "/_security/user",
        "/_plugins/_security/api/internalusers",
        "/api/datasources",
        "/credentials/",
    ),
    *(
        "/job/a/config.xml",
        "/systemInfo",
        "/connectors/a/config",
        "/connectors/a",
        "/swarm/unlockkey",
    ),
    *("/containers/a/archive?path=/etc", "/containers/a/export", "/phpinfo.php", "/server-info"),
    *("/backup.sql", "/wp-config.php.bak", "/id_rsa", "/.aws/credentials", "/debug/pprof/heap"),
    *(
        "/debug/pprof/cmdline",
        "/config",
        "/config_dump",
        "/api/v1/connections",
        "/api/v1/variables",
    ),
)


# What curl makes of these is an action as well.
FOLDED = (
    *(
        "ac{tion}=UNLOAD",
        "ac{tion=UNLOAD}",
        "actio[n-n]=UNLOAD",
        "a{b,ction}=UNLOAD",
        "{action}=UNLOAD",
    ),
    *("{x,y,action}=DELETE", "actio[m-o]=DELETE"),
)


def disguises(path: str, random: Random) -> Iterator[str]:
    """The same address as servers read it, written in other ways."""
    yield path
    bare, mark, query = path.partition("?")
    letters = [at for at, one in enumerate(bare) if one.isalpha()]
    hidden = random.sample(letters, k=min(2, len(letters)))
    quoted = "".join(f"%{ord(one):02x}" if at in hidden else one for at, one in enumerate(bare))
    yield f"{quoted}{mark}{query}"
    yield f"{quoted.replace('%', '%25')}{mark}{query}"
    yield f"/{bare}{mark}{query}"
    yield f"/./a/..{bare}{mark}{query}"
    yield f"{bare};jsessionid=1{mark}{query}"
    yield f"{bare}?{'a=b&' if mark else 'a=b'}{query}"
    if mark:
        yield f"{bare}?{query}#x"
        yield f"{bare}?{''.join(f'%{ord(one):02x}' if one.isalpha() else one for one in query)}"


def questions() -> Iterator[tuple[str]]:
    random = Random(3)
    for path in (*CHANGES, *SECRETS):
        for place, other in enumerate(disguises(path, random)):
            yield (FORMS[place % len(FORMS)].format(other),)
        yield (FORMS[2].format(path),)


def test_neither_a_change_nor_a_secret_is_asked_for_by_a_get() -> None:
    def is_not_safe(command: str) -> None:
        assert judge(Action.shell(command), POLICY, person=True).level is not Level.SAFE

    expect_each(questions(), is_not_safe)
    folded = [f"curl 'http://localhost/solr/admin/cores?{one}'" for one in FOLDED]
    expect_each(zip(folded, strict=True), is_not_safe)
    typed = ("http -I GET localhost/solr/admin/cores action==UNLOAD", "http -I localhost/x cmd==id")
    expect_each(zip(typed, strict=True), is_not_safe)


# Verbs that a part of an address begins or ends with, with no mark between the words, and what
# they are about. Their inflections are questions.
STEMS = "cancel clear delete disable drain enable evict flush kill purge reboot reload remove reset"
OBJECTS = ("all", "cache", "config", "mempool", "now", "node", "queue", "server")
INFLECTED = (
    *("cancelled", "cancellations", "cleared", "deleted", "deletes", "disabled", "drained"),
    *("enabled", "evictions", "flushes", "killed", "purged", "reboots", "reloads", "removed"),
    *("resets", "resettable", "stopped", "starting"),
)


def compounds() -> Iterator[tuple[str]]:
    for verb in (*STEMS.split(), "restart", "shutdown", "stop"):
        for thing in OBJECTS:
            for part in (f"{verb}{thing}", f"{thing}{verb}", f"unsafe_{verb}_{thing}"):
                yield (f"curl -s http://localhost:8080/api/{part}",)
                yield (f"curl -s http://localhost:8080/{part.upper()}/4",)
    for verb in (
        "broadcast",
        "cordon",
        "fence",
        "reindex",
        "reroute",
        "resign",
        "resync",
        "toggle",
    ):
        for path in (f"/{verb}", f"/{verb}_tx", f"/node-{verb}?id=1", f"/v1/x/{verb}/3"):
            yield (f"curl -s 'http://localhost:8080{path}'",)


def test_verbs_are_found_in_compounds() -> None:
    def is_not_safe(command: str) -> None:
        assert judge(Action.shell(command), POLICY, person=True).level is not Level.SAFE

    expect_each(compounds(), is_not_safe)


def test_what_has_happened_may_be_asked() -> None:
    def is_safe(command: str) -> None:
        verdict = judge(Action.shell(command), POLICY, person=False)
        assert verdict.level is Level.SAFE, verdict.explanation

    expect_each(((f"curl -s http://localhost:8080/jobs/{each}",) for each in INFLECTED), is_safe)


# Pages that show a state, and set it when they get parameters.
MANAGERS = ("balancer-manager", "jkmanager", "jk-status", "logging", "loglevel", "log_level")
# Functions by which a query reads files, runs programs or asks other servers.
READERS = ("file", "url", "s3", "remote", "executable", "mysql", "postgresql", "hdfs", "jdbc")
FILES = (
    *("/config/database.yml", "/app/config/secrets.yaml", "/conf/application.properties"),
    *("/settings/local.ini", "/appsettings.json", "/application-prod.yml", "/_config/admins"),
    *("/_config", "/_node/_local/_config", "/_users/_all_docs", "/__tokens__/1"),
)


def test_pages_that_set_files_that_configure_and_queries_that_reach_out_are_not_safe() -> None:
    def is_not_safe(command: str) -> None:
        assert judge(Action.shell(command), POLICY, person=True).level is not Level.SAFE

    pages = [f"/{page}?{query}" for page in MANAGERS for query in ("level=trace", "b=x&dw=Disable")]
    queries = [f"/?query=select+*+from+{name}('x')" for name in READERS]
    queries += [f"/?query=SELECT%20*%20FROM%20{name.upper()}%20('x')" for name in READERS]
    lines = [f'curl -s "http://localhost:8123{path}"' for path in (*pages, *queries, *FILES)]
    expect_each(zip(lines, strict=True), is_not_safe)
    for page in MANAGERS[:3]:
        line = f"curl -s http://localhost/{page}"
        assert judge(Action.shell(line), POLICY, person=True).level is Level.SAFE


# Without a scheme curl guesses one from the name: `dict.` sends any line to any port.
GUESSED = ("dict", "DICT", "imap", "ldap", "pop3", "smtp")


def test_no_protocol_is_guessed_from_the_name_of_a_host() -> None:
    def is_not_safe(command: str) -> None:
        assert judge(Action.shell(command), POLICY, person=True).level is not Level.SAFE

    forms = ("curl {}.localhost:6379/flush", "curl -s {}.a/x", "curl --url {}.db:11211/a")
    lines = [form.format(scheme) for form in forms for scheme in GUESSED]
    pinned = "curl --resolve {0}.a:6379:127.0.0.1 {0}.a:6379/x"
    lines += [pinned.format(scheme) for scheme in GUESSED]
    expect_each(zip(lines, strict=True), is_not_safe)
    named = "curl http://dict.example.org/word"
    assert judge(Action.shell(named), POLICY, person=True).level is Level.SAFE


LOOKS = (
    *(
        "/health",
        "/healthz?verbose",
        "/-/healthy",
        "/-/ready",
        "/metrics",
        "/status",
        "/server-status",
    ),
    *("/api/v1/query?query=up", "/api/v1/query_range?query=rate(x[5m])&start=1&end=2&step=60"),
    *(
        "/api/v1/targets?state=active",
        "/api/v1/status/buildinfo",
        "/api/v2/alerts",
        "/api/v1/rules",
    ),
    *(
        "/_cluster/health?pretty",
        "/_cat/indices?v",
        "/_cat/shards?v&h=index,state",
        "/_nodes/stats",
    ),
    *("/logs/_count", "/_cat/recovery", "/_cluster/allocation/explain", "/v1/status/leader"),
    *("/v1/health/service/web", "/v1/catalog/services", "/v1/sys/health", "/v1/sys/seal-status"),
    *(
        "/v1/agent/members",
        "/actuator/health",
        "/actuator/metrics/jvm.memory.used",
        "/actuator/info",
    ),
    *(
        "/solr/admin/cores?action=STATUS",
        "/solr/admin/collections?action=CLUSTERSTATUS",
        "/api/overview",
    ),
    *(
        "/api/queues",
        "/api/nodes",
        "/connectors",
        "/connectors/a/status",
        "/job/a/lastBuild/api/json",
    ),
    *(
        "/query?q=SHOW+DATABASES",
        "/query?db=a&q=SELECT+mean(x)+FROM+cpu",
        "/?query=SELECT%201",
        "/",
    ),
    *("/clusters", "/stats/prometheus", "/server_info", "/listeners", "/stats;csv", "/debug/vars"),
    *("/pd/api/v1/stores", "/pd/api/v1/health", "/jobs/overview", "/ws/v1/cluster/metrics", "/v2/"),
    *(
        "/containers/json",
        "/containers/a/stats?stream=false",
        "/nodes",
        "/cluster",
        "/patroni",
        "/leader",
    ),
    *(
        "/webhdfs/v1/a?op=LISTSTATUS",
        "/jmx?qry=Hadoop:*",
        "/api/search?q=set+point",
        "/api/v1/labels",
    ),
    *(
        "/loki/api/v1/query?query={app=%22web%22}",
        "/ready",
        "/api/v1/pods",
        "/orders/17?expand=items",
    ),
)


def test_questions_of_every_day_are_safe() -> None:
    def is_safe(command: str) -> None:
        verdict = judge(Action.shell(command), POLICY, person=False)
        assert verdict.level is Level.SAFE, verdict.explanation

    expect_each(((f"curl -sg 'http://localhost:8080{one}'",) for one in LOOKS), is_safe)


# What servers are told to do by whatever vendor, and what they only tell about that.
ORDERS = (
    "apply assign disconnect elect evacuate fire forget generate heal initialize prune push reap"
    " reconcile recycle redo relaunch renew repair replay reschedule respawn shrink spawn transfer"
    " unassign vote wake"
)
TOLD = "applied assignments elections evacuated generations healed repairs renewals votes"


def orders() -> Iterator[tuple[str]]:
    for order in ORDERS.split():
        coded = f"%{ord(order[0]):02x}{order[1:]}"
        for path in (f"/{order}", f"/api/v1/nodes/3/{order.upper()}", f"/{coded}/n1", f"/_{order}"):
            yield (f"curl -s 'http://localhost:8080{path}'",)


def test_an_order_as_a_whole_part_of_a_path_is_no_question() -> None:
    def is_not_safe(command: str) -> None:
        assert judge(Action.shell(command), POLICY, person=True).level is not Level.SAFE

    expect_each(orders(), is_not_safe)
    for each in TOLD.split():
        line = f"curl -s http://localhost:8080/api/{each}"
        assert judge(Action.shell(line), POLICY).level is Level.SAFE, line
