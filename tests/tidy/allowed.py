"""The exceptions to the tidy rules, each with its reason. One that is not needed any more fails."""

__all__ = ["BROAD_EXCEPTS", "PRINTS", "SLEEPS", "WORDS"]

# `path:function` -> why this is a boundary at which any error at all must be caught.
BROAD_EXCEPTS: dict[str, str] = {
    "protocols/src/operator_protocols/promises.py:_tool": (
        "whatever a plug-in's tool raises, that it raises is the broken promise"
    ),
    "protocols/src/operator_protocols/promises.py:_depot": (
        "whatever a plug-in's depot raises, that it raises is the broken promise"
    ),
    "evals/src/operator_evals/app/trial_facts.py:Counting._write": (
        "whatever a plug-in's depot raises, nobody has acknowledged anything"
    ),
    "evals/src/operator_evals/app/trial_facts.py:Counting.reads": (
        "whatever a plug-in's depot raises, nothing could be read"
    ),
    "evals/src/operator_evals/app/trial_facts.py:Counting._find_gone": (
        "whatever a plug-in's depot raises, nobody can tell what is gone"
    ),
    "src/operator_sre/executor/execute.py:Executor.execute": (
        "a tool that breaks must not leave its intent open; it is logged and unknown"
    ),
    "lab/src/operator_lab/app/rigs.py:_ask_oracle": (
        "whatever a plug-in's oracle raises, nobody has said that the fault is over"
    ),
    "evals/src/operator_evals/app/trial_rig.py:FaultOfTrial.still": (
        "whatever a plug-in's oracle raises, nobody has said that the fault is over"
    ),
    "src/operator_sre/api.py:Executor.run.watch": (
        "whatever a caller's function raises, the command goes on; it is raised afterwards"
    ),
    "tests/subjects/bed/application.py:serve.Page.do_GET": (
        "whatever its database raises, the page says that it failed"
    ),
    "tests/subjects/bed/trial.py:try_way": "the table says what became of each way",
    "tests/every.py:_Cases.check": "whatever one case raises, all others are checked and named",
    "tests/crash/executing.py:forked": "a forked process must not run on as its parent",
    "src/operator_sre/processes/confinement/guard.py:Guard._answer_next": (
        "whatever it is, the command waits for an answer, and is refused"
    ),
    "src/operator_sre/processes/confinement/guard.py:Guard._finish": (
        "whatever it is, the command waits for an answer, and is refused"
    ),
    "src/operator_sre/processes/confinement/relays.py:Relays._serve": (
        "whatever a stranger sends ends its own connection and no other"
    ),
    "src/operator_sre/processes/confinement/workers.py:Workers._work": (
        "whatever it is, the task that waits for the thread is told"
    ),
    "tests/processes/confinement/arena.py:in_arena": "a forked process must not run on",
    "tests/workers.py:_run_worker": "a forked process must not run on as its parent",
    "src/operator_sre/app/workflows.py:follow_workflows.carry": (
        "one broken workflow must not end the agent; it is logged and has been failed"
    ),
    "src/operator_sre/engine/local.py:LocalEngine._carry": (
        "one broken run must not end the agent; it is logged and its ticket released"
    ),
    "src/operator_sre/app/parts.py:Parts._keep": (
        "one broken part must not end the others; it is logged, shown in the status, and restarted"
    ),
    "src/operator_sre/engine/local.py:Rounds._watch": (
        "one broken subject must not blind us to all others; it is logged and counted"
    ),
    "src/operator_sre/monitor/monitor.py:run_check": (
        "whatever a plug-in raises, nothing was seen, and that is UNKNOWN"
    ),
    "src/operator_sre/monitor/monitor.py:findings_of": (
        "a plug-in's check that crashes says nothing about health"
    ),
    "src/operator_sre/plugins.py:_load": (
        "a stranger's module may raise anything while it is loaded; it is told in one sentence"
    ),
    "src/operator_sre/faces/mcp/server.py:Desk.call_tool": (
        "whatever breaks, a stranger is told one sentence, and nothing of our insides"
    ),
    "src/operator_sre/notify/channel.py:AppriseChannel._send": (
        "whatever a service raises, a message was not sent, and its words may hold the address"
    ),
    "src/operator_sre/triggers/subject.py:AlertInvariant._judge_own": (
        "what a check of a plug-in does must not hide an alert; our own look is unknown then"
    ),
    "src/operator_sre/triggers/subject.py:WithAlerts.observe": (
        "whatever a plug-in raises, nothing was seen, and alerts count all the same"
    ),
    "src/operator_sre/subjects/declarative/subject.py:DeclarativeSubject._observe": (
        "what one target sends must not blind us for all others; it is unknown, with the reason"
    ),
    "src/operator_sre/models/remote/model.py:RemoteModel._request": (
        "whatever a provider's library raises, the model has not answered; told in one sentence"
    ),
    "src/operator_sre/models/summaries.py:ModelSummariser.summary": (
        "a summary that cannot be had never fails what it is about; the rule writes it"
    ),
    "src/operator_sre/store/writer.py:Committer._apply": (
        "the error belongs to the one who waits for this change, who raises it"
    ),
    "src/operator_sre/store/writer.py:Committer.commit": (
        "whatever goes wrong, everybody who waits is told; nobody waits forever"
    ),
}

# `path:function` -> why it prints by itself.
PRINTS: dict[str, str] = {
    "src/operator_sre/subjects/ratelimiter/restore_limit.py:_say": (
        "a program of its own in a box, whose answer is what it prints"
    ),
}

# `path:function` in tests -> why it waits for time instead of a condition.
SLEEPS: dict[str, str] = {
    "tests/subjects/ratelimiter/test_second_writer.py:Writers.write": (
        "a client that writes at an even rate"
    ),
    "tests/subjects/bed/application.py:Application.check": (
        "a bad release that is slow is a way to break it"
    ),
    "tests/subjects/bed/application.py:Application.receive_jobs": "jobs come in at an even rate",
    "tests/subjects/bed/application.py:Application.do_jobs": "each job takes its time",
    "tests/subjects/bed/application.py:serve.Server.get_request": (
        "it has no descriptor left, and tries again"
    ),
    "tests/subjects/bed/trial.py:_follow": "it follows the tickets until they end, with a deadline",
    "tests/contract/test_subjects.py:Honest.observe": "a look that takes too long is the input",
    "tests/crash/cluster_repairs.py:_approve": "a person who looks again until cancelled",
    "tests/crash/executing.py:Victim._approve": "a person who looks again until killed",
    "tests/crash/executing.py:forked": "waits for a process until its deadline",
    "tests/crash/test_workers.py:_die_again_and_again": "the moment of death is the input",
    "tests/crash/test_workers.py:_treat_roughly": "the moment of each blow is the input",
    "tests/e2e/waiting.py:eventually": "polls a condition until its deadline",
    "tests/engines/floor.py:Mend.call": "a repair that takes a while is the input",
    "tests/engines/tikv/consensus.py:Consensus.change": "the pace of a server is its own",
    "tests/engines/tikv/pd.py:Member._introduce": "the pace of a server is its own",
    "tests/engines/tikv/pd.py:Member._lead": "the pace of a server is its own",
    "tests/executor/transports/sshd.py:_await_banner": "polls a condition until its deadline",
    "tests/faces/tui/test_terminal.py:_interrupted": "the moment of the key is the input",
    "tests/leaks.py:LeaksPlugin.pytest_runtest_teardown": "polls a condition until its deadline",
    "tests/lab/stacks/test_labs.py:_until": "the pace of a monitor, until its deadline",
    "tests/lab/stacks/test_town.py:Town.until": "the pace of a monitor, until its deadline",
    "tests/lab/matrix/stage.py:Stage.until_healthy": "the pace of a monitor, until its deadline",
    "tests/lab/matrix/stage.py:Stage.until_violated": "the pace of a monitor, until its deadline",
    "tests/processes/runners.py:end_runner": "polls a condition until its deadline",
    "tests/processes/waiting.py:eventually": "polls a condition until its deadline",
    "tests/services/conftest.py:_until": "polls a condition until its deadline",
    "tests/services/test_ratelimiter_window.py:Round._call": "the pace of a caller is the input",
    "tests/services/test_ratelimiter_window.py:Round._kill": "the moment of death is the input",
    "tests/subjects/etcd/looks.py:Watch.until": "polls a condition until its deadline",
    "tests/subjects/tikv/test_tikv_mending.py:_slow.carry": "a way that takes longer, on purpose",
    "tests/subjects/tikv/test_tikv_mending.py:until": "polls a condition until its deadline",
    "tests/subjects/postgres/watching.py:eventually": "polls a condition until its deadline",
    "tests/subjects/tikv/test_real_pd.py:_grown": "polls a condition until its deadline",
    "tests/subjects/tikv/test_real_pd.py:_until_broken": "polls a condition until its deadline",
    "tests/subjects/kafka/fake_broker.py:serve.answer": "a broker that is slow, on purpose",
    "tests/subjects/kafka/test_kafka_rig.py:_until": "polls a condition until its deadline",
    "tests/subjects/tikv/test_pd_contract.py:until": "polls a condition until its deadline",
}

# `path` -> why it may hold a word that is otherwise kept out of committed files.
WORDS: dict[str, str] = {
    "src/operator_sre/gate/grammar/tools.json": "made from the tables beside it",
    "src/operator_sre/gate/grammar/tools/packages.yaml": "options of pip are what it says",
    "src/operator_sre/gate/policy/default.json": "made from default.yaml",
    "src/operator_sre/gate/policy/default.yaml": "where secrets of root lie is what it says",
}
