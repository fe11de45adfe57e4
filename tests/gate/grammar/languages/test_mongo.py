"""mongosh: only a plain chain of reads with literal arguments is proven."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operator_sre.gate.grammar.languages.mongo import mongo
from tests.every import every

READS = [
    "db.serverStatus()",
    "db.serverStatus().connections",
    "db.stats()",
    "db.version()",
    "db.currentOp(true)",
    "db.hello().isWritablePrimary",
    "db.getCollectionNames()",
    "db.orders.find()",
    "db.orders.find({}, {_id: 0}).limit(5).pretty()",
    'db.orders.find({"state": "open", n: {$gt: 5}}).sort({_id: -1}).toArray()',
    "db.orders.find({name: /^a[/]b/i}).count()",
    "db.orders.find({at: {$lt: ISODate('2024-01-01')}}).explain('executionStats')",
    "db.orders.find({at: new Date(5)}).forEach(printjson)",
    "db.orders.findOne()",
    "db.orders.countDocuments({a: null, b: true})",
    "db.orders.distinct('state')",
    "db.orders.stats().size",
    "db.orders.getIndexes()",
    "db.orders.aggregate([{$match: {a: 1}}, {$group: {_id: '$b', n: {$sum: 1}}}])",
    "db.orders.explain().find({a: 1})",
    "db.shop.orders.estimatedDocumentCount()",
    "db.getCollection('orders').find().limit(1)",
    "db.getSiblingDB('shop').orders.find()",
    "db['orders'].find()",
    "db.adminCommand({ping: 1})",
    "db.adminCommand('ping')",
    'db.runCommand({"serverStatus": 1, repl: 0})',
    "rs.status()",
    "rs.status().members[0].stateStr",
    "rs.conf()",
    "sh.status()",
    "printjson(rs.status())",
    "print(db.version())",
    "JSON.stringify(rs.status(), null, 2)",
    "print(JSON.stringify(db.stats()))",
    "show dbs",
    "show collections",
    "use shop; db.orders.find()",
    "db.orders.find(\n{a: 1}\n)",
    "db.stats(); rs.status();",
]
REFUSED = [
    ("db.system  .  users.find()", "?"),
    ('db["system"]  ["users"].find()', "?"),
    ('db.getCollection("sy\\stem.u\\sers").find()', "An escape"),
    ("db.dropDatabase()", "!The call"),
    ("db.orders.drop()", "!The call"),
    ("db.orders.deleteMany({})", "!The call"),
    ("db.orders.remove({})", "!The call"),
    ("db.orders.insertOne({})", "The call"),
    ("db.orders.updateMany({}, {$set: {a: 1}})", "The call"),
    ("db.orders.explain().update({}, {})", "The call"),
    ("db.stats(); db.orders.drop()", "!The call"),
    ("db.stats()\ndb.orders.drop()", "!The call"),
    ("db.orders.find({$where: 'sleep(1)'})", "!The operator '$where'"),
    ('db.orders.find({"$where": "1"})', "!The operator"),
    ('db.orders.find({"$wh\\ere": "1"})', "An escape"),
    ('db.orders.find({"\\u0024where": "1"})', "What begins"),
    ("db.orders.find({['$where']: 1})", "!The operator"),
    ("db.orders.aggregate([{$out: 'x'}])", "!The stage '$out'"),
    ("db.orders.aggregate([{'$merge': {into: 'x'}}])", "!The stage"),
    ("db.orders.aggregate([{$project: {a: {$function: {}}}}])", "!The operator"),
    ("db.orders.find({a: db.orders.drop()})", "The name 'db'"),
    ("db.orders.find({a: x})", "The name 'x'"),
    ("db.orders.find(function() { return 1 })", "The name 'function'"),
    ("db.orders.find().forEach(x => db.orders.drop())", "What begins"),
    ("db.orders.find({f() { }})", "The name 'f'"),
    ("db.orders.find({ISODate() {}})", "Only a plain"),
    ("db.orders.find().constructor('x')()", "The call 'constructor'"),
    ("db.orders.find()('x')", "Only a plain"),
    ("db['dropDatabase']()", "Only a plain"),
    ("db.adminCommand({shutdown: 1})", "The command 'shutdown'"),
    ("db.adminCommand({fsync: 1, ping: 1})", "The command 'fsync'"),
    ("db.adminCommand({getCmdLineOpts: 1})", "?"),
    ("db.adminCommand(x)", "The name"),
    ("db.getSiblingDB('a').dropDatabase()", "!The call"),
    ("db.getUsers()", "The call"),
    ("db.system.users.find()", "?"),
    ("db.credentials.find()", "?"),
    ("show users", "?"),
    ("rs.stepDown()", "The call"),
    ("rs.a.status()", "The call"),
    ("sh.stopBalancer()", "The call"),
    ("require('child_process')", "What begins"),
    ("process.env", "What begins"),
    ("load('x.js')", "What begins"),
    ("x = db.stats()", "What begins"),
    ("print(`a`)", "What begins"),
    ("print(db.stats()", "Only a plain"),
    ("db.stats() db.stats()", "Only a plain"),
    ("db", "Only a plain"),
    ("db.orders.find(", "A bracket does not end."),
    ("db.orders.find(]", "Only a plain"),
    ("", "There is no expression."),
]


@every("text", READS)
def test_a_read_is_proven(text: str) -> None:
    assert mongo(text) is None


@every(("text", "start"), REFUSED)
def test_anything_else_has_a_reason(text: str, start: str) -> None:
    reason = mongo(text)
    assert reason is not None
    assert reason.startswith(start)


@given(st.sampled_from(READS), st.sampled_from(["db.a.drop()", "quit()", "rs.initiate()", "x=1"]))
def test_a_change_is_found_before_and_behind_a_read(read: str, change: str) -> None:
    assert mongo(f"{read}; {change}") is not None
    assert mongo(f"{change}; {read}") is not None
