"""The language of plans in one table: every key with its names, what it holds, how it is read, and what a change means.

Made from the rows: the published schema, and from that what the check, completion and the reference say
(``docs/schema_files.py``); canonical names and order (``canonical``); what reads a key (``lower``); what a revision
repeats (``identity``); keys without an effect (``rules/unused``) and names that mean another key (``wording``). The
shapes of values stand in ``shapes``. A new key is one row here and the code that uses its value.
"""

from __future__ import annotations

from typing import Any, Literal

from planrunner.records import Struct, fields

Part = Literal[
    "", "action", "budgets", "digits", "edges", "hypotheses", "loop", "rollback", "services", "subplans", "task",
    "tasks",
]  # fmt: skip
"""What the value of a key holds that has canonical keys of its own."""

Moment = Literal["", "before", "after", "detect", "facts", "checks", "results", "rounds", "call"]
"""When the expressions and templates in a value are evaluated, which decides the names that they see: before the task
acts, after it (with its outcome), to recognise a failure, on facts of the world, in a gate, on the results of needs, at
the end of a round of a loop. What an agent wants to call is judged before the call is made."""

Change = Literal["", "prose", "place", "how"]
"""What the key is about, and so what a change of it means for a result: words for people (``prose``), where the task is
in the graph and in the queue (``place``) and how it is carried out (``how``) leave it valid; anything else changes what
the task gives."""


class Key(Struct):
    """A key of a mapping, or a shape of values that has a name.

    ``kind`` are the JSON types of the value, or the name of a shape (``task.run``: as that key of a task); ``schema``
    has what else is asked of it in the words of JSON Schema (``key``), ``keys`` what a mapping there has. ``says`` is
    its line in the reference.
    """

    name: str
    kind: str
    says: str = ""
    keys: tuple[Key, ...] = ()
    schema: dict[str, Any] = {}
    read: str = ""
    """The reader in ``lower`` of the table's tasks or plans; of several keys that are read together, their group."""
    aliases: str = ""
    same: str = ""
    """The key that this one stands for in another form, such as ``steps`` for ``tasks``."""
    field: str = ""
    """The fields of the model that it becomes, where they are not of its own name."""
    inside: Part = ""
    moment: Moment = ""
    change: Change = ""
    guards: bool = False
    """It holds the task back, or decides whether it went well: no run changes it of its own."""
    idle: str = ""
    """The tasks on which it has no effect: ``containers`` (of other tasks), ``linked`` (to a plan), ``people`` (who do
    it)."""
    hands: str = ""
    """Who takes the value from the task around: its ``steps``, calls of its ``agent``, ``calls`` of its command."""
    also: str = ""
    """The shapes that have this key of a task as well."""
    only: str = ""
    """The shape that has it where no task does."""
    apart: str = ""
    """The keys that it excludes."""
    meant: str = ""
    """What other tools call it; ``~`` where the value means something else there."""

    @property
    def fields(self) -> list[str]:
        """The fields of the model that the key says."""
        return (self.field or ("notes" if self.read == "note" else self.name)).split()


_COLUMNS = frozenset(fields(Key))


def key(name: str, kind: str, says: str = "", **more: Any) -> Key:
    """A row: columns of ``Key``, and keywords of JSON Schema in a short form.

    ``enum`` and ``required`` (``a|b``: one of them) are words, ``items``, ``values`` (of a mapping, by any name) and
    ``mapping`` (of a value that is one) are kinds. ``expected`` is the message of a ``pattern``. A mapping that is
    ``open`` may have other keys.
    """
    columns = {word: more.pop(word) for word in [*more] if word in _COLUMNS}
    return Key(name, kind, says, schema=more, **columns)


def one(kind: str, **more: Any) -> Key:
    """A value without a name."""
    return key("", kind, **more)


TEMPLATE = r"^\s*\{\{[^{}]*\}\}\s*$"
SHARE = r"^ *[0-9]+(\.[0-9]+)?% *$"

_REFLECT = (
    key("agent", "string", "The agent of the project whose model reflects."),
    key("model", "string", "The model that reflects."),
    key("rubric", "string", "What the model looks for."),
    key("budgets", "budgets"),
)


def steps(same: str, **more: Any) -> Key:
    """The list of steps that may stand in the place of a list of tasks."""
    says = (
        "The steps in order: commands as text, or tasks. Where a step has no `id`, steps are numbered (`step-1`) and "
        "each waits for the one before it, unless it says `needs`; where all have ids, this is another name of "
    )
    example = ["make build", {"run": "make test", "timeout": "10m"}]
    return key(
        "steps", "array", f"{says}`{same}`.", same=same, minItems=1, items="subplan_step", examples=[example], **more
    )


# fmt: off

PLAN = key("plan", "object", "A plan for planrunner: a graph of tasks with gates, budgets and policies.",
           required="plan tasks", keys=(
    key("plan", "id", "The name of the plan.", aliases="plan_id id", field="id", examples=["release-check"]),
    key("title", "string", "One line for people.", read="text", change="prose"),
    key("description", "string", "What the plan is for.", read="text", change="prose"),
    key("owner", "string", "Who answers for the plan.", read="text", change="prose", examples=["agent/openagent"]),
    key("version", "string number", "The version of the plan.", read="text", inside="digits", change="how"),
    key("created_at", "string", "When the plan was written.", read="note", change="prose",
        examples=["2025-10-30T00:00:00Z"]),
    key("state", "string", "A note of the state by hand, or of the states there are: `pending|running`; a run keeps "
        "its own.", read="note", change="prose",
        pattern=r"^(pending|running|paused|blocked|completed|failed|cancelled)(\|(pending|running|paused|blocked|co"
                r"mpleted|failed|cancelled))*$",
        expected="`state` must be pending, running, paused, blocked, completed, failed or cancelled, or several of"
                 " them with `|` between"),
    key("stakeholders", "string array", "People who have a stake in the plan.", read="note", change="prose"),
    key("labels", "string array", "Words that limits and policies refer to.", read="note", change="prose",
        items="string"),
    key("deadline", "string", "When the plan must be done: a duration from the start of the run such as `2h`, or a "
        "date or time in ISO 8601, UTC where it names no zone; words are for people.", read="deadline", change="how",
        field="notes deadline due", examples=["2h"]),
    key("done", "string array", "When the plan counts as completed: criteria that are decided when all its tasks "
        "are settled and none failed, by the task `definition-of-done`, which runs before `finally`. Expressions "
        "read `tasks`, `params` and `env`; plain words are judged as those of `expect`. Where one does not hold, or "
        "has no value, the plan fails.", read="note", aliases="definition_of_done", moment="before",
        items="criterion"),
    key("params", "object", "Values that the caller gives: a mapping from name to declaration, type (`n: int`) or "
        "default (`n: 3`).", read="params", values="parameter",
        examples=[{"ref": {"type": "string", "default": "HEAD"}}]),
    key("budgets", "budgets", "Limits for the whole run.", read="budgets", aliases="budget", inside="budgets",
        change="how", examples=[{"time": "20m", "cost": "$2", "tokens": "200k"}]),
    key("policy", "policy", "Rights of the plan: they narrow those of the operator.", read="data", aliases="policies",
        change="how", field="policy gated"),
    key("defaults", "defaults", "What holds for every task that does not say otherwise.", inside="task",
        examples=[{"timeout": "5m"}]),
    key("env", "environment", "Environment variables of every task.", read="pairs", inside="digits"),
    key("max_parallel", "integer", "How many tasks run at once.", read="parallel", change="how", minimum=1,
        maximum=10000, default=5),
    key("limits", "object", "How many tasks with a label run at once.", read="limits", change="how", title="limits",
        values=one("integer", minimum=1), examples=[{"database": 1}]),
    key("seed", "integer", "The seed of everything random.", read="whole"),
    key("on_failure", "string", "What a failing task does to the run: `stop` starts nothing new, `cancel` stops "
        "what runs beside it as well, `continue` goes on where needs allow, `rollback` stops and undoes.",
        read="on_failure", change="how", enum="stop cancel continue rollback", default="stop"),
    key("rollback", "rollback_policy", "How a run is undone, after a failure where `on_failure` is `rollback`, or "
        "by hand; of a plan that another links: how that is undone.", read="rollback", inside="rollback", change="how",
        examples=[{"mode": "strict"}]),
    key("breakers", "array", "Circuit breakers: capabilities that failed so often in a row are left alone for a "
        "while.", read="breakers", change="how", items="breaker",
        examples=[[{"uses": "http.*", "failures": 5, "cooldown": "1m"}]]),
    key("memory", "memory", "Memory keys that the plan reads or writes.", read="note", change="prose"),
    key("hypotheses", "array object", "Hypotheses that results of tasks support or refute: a list of names and "
        "declarations, or a mapping from names to declarations or statements.", read="hypotheses", inside="hypotheses",
        items="hypothesis", values="hypothesis",
        examples=[{"race": {"statement": "Two writers race", "prior": "40%"}, "pool": "The pool is exhausted"}]),
    key("reflect", "boolean object", "Have a model reflect on every run of the plan. Its suggestions do not affect "
        "the run.", examples=[True, {"rubric": "could this be faster?"}], keys=_REFLECT),
    key("outputs", "outputs", "Results of the plan, as templates.", read="outputs"),
    key("artifacts", "artifacts", "Artifacts of the plan: `{name, from: task}`.", read="artifacts"),
    key("gates", "array", "Gates apart from their tasks: `[{id, checks}]`.", items="gate_entry"),
    key("agents", "object", "Agents of this plan by name, beside those of `planrunner.yaml`: for `agent` of a task, "
        "and for `tools` of other agents.", values="agent",
        examples=[{"brief": {"description": "Sums up a file in one sentence.", "tools": ["files.read"]}}]),
    key("services", "object", "Programs that run beside the tasks: each is started when what it needs is done, is a "
        "task that others need, and ends with the run.", inside="services", values="service",
        examples=[{"db": {"run": ["postgres", "-D", "data"], "ready": "tcp://127.0.0.1:5432", "timeout": "30s"}}]),
    key("tasks", "array", "The tasks of the plan.", aliases="nodes", inside="tasks", field="tasks",
        meant="~jobs ~stages ~targets", items="task", minItems=1),
    steps("tasks"),
    key("finally", "array", "Tasks that run when everything else is settled, whatever happened.", inside="tasks",
        meant="cleanup ~handlerOn always post", items="task"),
    key("subplans", "object", "Subplans by name, each a mapping or the file of a plan.", read="note",
        inside="subplans", values="subplan_of_plan"),
))

TASK = key("task", "object", required="id", keys=(
    key("id", "task_id", "The name of the task, unique in the plan; expressions and edges use it. A `*` at the end "
        "names a family of tasks.", read="identity", examples=["test", "rfc-collect-1", "gaps-deep-dive-*"]),
    key("title", "string", "One line for people.", read="text", aliases="name", change="prose", also="service",
        meant="name goal"),
    key("description", "string", "What the task is for, in as many words as it takes.", read="text", change="prose",
        also="service"),
    key("kind", "string", "What sort of work it is: `research`, `analyze`, `implement`, `validate`, `debug`, "
        "`refactor`, `deploy`, or your own word. `gate` makes the task a gate.", read="text",
        examples=["research", "implement", "validate", "gate"]),
    key("role", "string", "The role of the node in the graph; it is derived, and checked where it is declared.",
        read="word", change="prose", enum="START LINEAR DECISION BRANCH SPLIT MERGE EXIT"),
    key("status", "string", "A note of the state by hand; a run keeps its own.", read="note", change="prose",
        enum="pending queued running blocked completed failed skipped abandoned cancelled"),
    key("priority", "string integer", "Which ready task starts first: `low`, `normal`, `high`, `critical`, or a "
        "number (higher first).", read="priority", change="place", also="defaults",
        pattern="^(low|normal|high|critical)$",
        expected="a priority is `low`, `normal`, `high`, `critical` or a number", default="normal",
        examples=["high", 5]),
    key("owner", "string", "Who answers for the task.", read="text", change="prose", also="defaults"),
    key("labels", "string array", "Words that limits and policies refer to.", read="labels", guards=True,
        change="place",
        also="defaults", meant="tags tag", items="string", examples=[["prod"]]),
    key("deadline", "string", "When the task must be done: a duration from the start of the run such as 2h, or a "
        "date or time in ISO 8601, UTC where it names no zone; words are for people.", read="deadline",
        field="notes due_in due", change="prose"),
    key("needs", "string array", "Tasks that come first: an id, a list of ids, or an expression such as `test.ok "
        "and (lint.ok or lint.skipped)`.", read="needs", aliases="depends_on dependsOn", moment="results",
        change="place", also="service", meant="deps requires after depends dependencies prerequisites upstream",
        items="task_id", examples=[["build", "lint"], "test.ok and (lint.ok or lint.skipped)"]),
    key("join", "string object", "When the needs are met: `all` (the default), `any`, `{at_least: n}`, `always`, "
        "`all_done`, `all_done_any`, `one_failed`, `none_failed`, `all_failed`, or an expression.", read="flow",
        guards=True,
        moment="results", change="place", title="join", required="at_least", default="all",
        examples=["all", "any", {"at_least": 2}, "always"], keys=(
        key("at_least", "integer", "How many of the needs must complete.", minimum=1),)),
    key("when", "expression", "The task runs only if this holds; else it is skipped.", read="condition", guards=True,
        aliases="if",
        moment="facts", also="service", meant="~unless only_if condition"),
    key("assumptions", "string array", "What is taken for granted.", read="note", change="prose"),
    key("risks", "string array", "What may go wrong.", read="note", change="prose"),
    key("capabilities", "string array", "Capabilities or families that the task may use, and nothing else: "
        "files.read, git, http.*.", read="note", change="prose", also="defaults", items="string"),
    key("preconditions", "criteria", "What must hold before the task starts, facts of the world included "
        "(`memory.has_space >= 50MB`).", read="criteria", guards=True, moment="facts", change="how"),
    key("foreach", "string array", "An expression that gives a list, or a list: one copy of the task for each item.",
        read="fanout", moment="before", apart="matrix", meant="with_items for_each forEach",
        examples=["tasks.find.outputs.gaps"]),
    key("matrix", "matrix", "One copy of the task for each combination.", read="fanout", moment="before",
        meant="~strategy"),
    key("as", "id", "The name of the item in expressions and templates.", read="fanout", default="item"),
    key("max_parallel", "integer string", "How many copies run at once.", read="fanout", moment="before",
        meant="concurrency max-parallel parallelism max_active_steps maxActiveSteps parallel", pattern=TEMPLATE,
        expected="a whole number, or a template that gives one such as `{{ params.width }}`", minimum=1),
    key("max_items", "integer", "The most items.", read="fanout", minimum=1),
    key("tolerate", "integer string", "How many copies may fail: a number or a percentage.", read="fanout",
        moment="before", minimum=0, pattern=f"{SHARE}|{TEMPLATE}",
        expected="a number of items or a percentage such as `20%`, or a template that gives one", examples=[1, "20%"]),
    key("delay", "computed_duration", "How long the task waits before its first attempt, once it could start. The "
        "wait takes no slot.", read="delay", moment="before", change="how", idle="people"),
    key("uses", "string", "The capability that does the work, named `family.verb`; `shell` for commands.", read="text",
        aliases="using", meant="action plugin capability", examples=["shell", "files.read", "files.write", "noop"]),
    key("with", "object", "Inputs of the capability. A value that is one whole template keeps its type.",
        read="inputs", aliases="inputs input", field="inputs", moment="before", idle="people", meant="arguments args",
        examples=[{"path": "build/report.txt"}]),
    key("run", "string array", "A shell script; each `{{ … }}` arrives as data. A list is a command with its "
        "arguments and no shell.", read="run", field="run script", inside="digits", moment="before", also="service",
        apart="command", meant="script cmd exec shell_command cmds", items="string number boolean", minItems=1,
        examples=["python -m pytest -q", ["git", "status"]]),
    key("command", "string", "Capability calls with named results (`search(query) -> top10; fetch(top10) -> docs`), "
        "or an instruction in plain words.", read="command", moment="before"),
    key("agent", "string object", "The agent that carries out the task: the name of an agent of the project, or an "
        "inline definition with `model`, `system`, `tools` …", read="agent",
        apart="run uses command loop subplan steps gate", open=True, examples=["coder"], keys=(
        key("context", "task.context"),
        key("calls", "hooks"),)),
    key("prompt", "instructions", "The instructions for the agent: text, `{file: PATH}` from the folder of the "
        "plan, or a list of both.", read="agent", moment="before",
        examples=["Find out why this happens: {{ params.issue }}", {"file": "prompts/review.md"}]),
    key("model", "string", "The model of the agent in this task: a name under `models` of `planrunner.yaml`.",
        read="agent", examples=["fast"]),
    key("effort", "string", "The reasoning effort of the model in this task.", read="agent",
        enum="none low medium high", examples=["low"]),
    key("tools", "texts", "The tools of the agent that this task allows; default: all.", read="agent",
        examples=[["files.read", "files.glob"]]),
    key("denied", "texts", "The tools of the agent that this task excludes.", read="agent", examples=[["shell"]]),
    key("calls", "hooks", "What happens to calls of tools: each entry denies them, asks a person first, or tells "
        "the model something with the result. It adds to what the agent says.", read="agent", moment="call",
        examples=[[{"tool": "files.write", "when": 'not starts_with(call.arguments.path, "tests/")',
            "deny": "Only tests may change."}]]),
    key("schema", "object", "The schema of the answer: a JSON Schema, or names with their types. Its properties are "
        "outputs of the task.", read="agent", minProperties=1, examples=[{"approved": "bool", "issues": ["string"]}]),
    key("until", "string object", "When the work is accepted: an expression over the outputs, or a task that must "
        "succeed. Otherwise the agent continues with the reason.", read="agent", inside="task", moment="rounds",
        examples=["outputs.approved", {"run": "python -m pytest -q"}]),
    key("tries", "integer", "The most answers that `until` may refuse; after the last one the task fails with the "
        "class `exhausted`.", read="agent", minimum=1, maximum=1000, examples=[5]),
    key("rounds", "integer", "The most requests to the model.", read="agent", minimum=1, maximum=1000, default=30),
    key("session", "id", "The name of a conversation that this task and later ones continue.", read="agent",
        examples=["work"]),
    key("context", "string object", "The context sent before the prompt: the name of a profile under `contexts` of "
        "`planrunner.yaml`, or keys that override the profile of the agent. `fresh` begins a new conversation, also "
        "each time `until` is not met.", read="agent",
        examples=["working", {"tokens": "12k", "include": ["task", "results", "files"], "files": ["src/**/*.py"]}],
        keys=(
        key("tokens", "count", "The token limit of the context; each byte counts as one token."),
        key("include", "array", "The parts of the context, the most important first.",
            items=one("string", enum="skills plan task results memory files"), minItems=1, uniqueItems=True),
        key("skills", "texts", "Markdown files with instructions."),
        key("files", "texts", "Files of the project, or patterns."),
        key("memory", "object", "Memory entries that match the prompt.", keys=(
            key("layers", "texts", "Layers of memory: task, project, global."),
            key("limit", "integer", "The most memory entries.", minimum=1),)),)),
    key("branches", "integer array object", "Run several candidates of the agent in parallel, each in its own "
        "working tree, and keep the best by `score`: their number, or a text for each that is added to the prompt.",
        read="branches", minimum=2, maximum=8, minItems=2, items="instructions",
        examples=[3, ["Change as little as possible.", "Write it again from scratch."], {"agents": ["coder",
            "careful-coder"]}], keys=(
        key("candidates", "integer", "The number of candidates; default: the number of agents or prompts.", minimum=2,
            maximum=8),
        key("agents", "array", "The agents of the candidates, in turn.", minItems=1, items="string object"),
        key("prompts", "array", "Texts added to the prompt of each candidate, in turn.", minItems=1,
            items="instructions"),)),
    key("score", "string object", "How to select the best candidate of `branches`: a task that must succeed (its "
        "output `score` ranks candidates), an expression over the outputs, `vote`, or `{judge: …}` with criteria "
        "for a model.", read="branches", inside="task",
        examples=[{"run": "python -m pytest -q"}, "outputs.confidence", "vote",
            {"judge": "the change is small and easy to read"}]),
    key("loop", "loop", "Tasks that are repeated, at most `max` times.", read="action", inside="loop", moment="rounds",
        apart="subplan steps run command uses", meant="~repeat ~repeat_policy"),
    key("subplan", "array string", "Steps inside the task (tasks or plain words), the file of another plan, or the "
        "name of one of the plan's subplans.", read="action", field="subplan steps subplan_file sub", inside="tasks",
        apart="run command uses", meant="children plan tasks call", items="subplan_step", minItems=1,
        examples=[["inspect pool stats", "enable slow query log"], "checks.plan.yaml"]),
    steps("subplan", apart="run command uses"),
    key("params", "object", "Values for the parameters of a subplan that is a file or has a name.", read="action",
        moment="before", meant="vars variables parameters"),
    key("gate", "string", "Makes the task a gate of this kind: the run waits here for people or checks.", read="gate",
        guards=True,
        also="gate_entry label_gate", apart="run uses command loop subplan steps",
        enum="approval checks schema invariants tests diff decision"),
    key("ask", "string", "The question that a gate puts to people.", read="gate", moment="checks",
        also="gate_entry label_gate", examples=["Release {{ params.ref }}?"]),
    key("checks", "criteria", "What a gate checks: expressions or plain words.", read="gate", moment="checks",
        also="gate_entry label_gate"),
    key("options", "array string", "The choices at a decision: a list, or an expression that gives one (texts, or "
        "maps with an `id`).", read="gate", moment="before", also="gate_entry", items="option", minItems=1),
    key("choose", "expression", "An expression for the name of the option to take without asking. People decide if "
        "it names no option.", read="gate", moment="checks", also="gate_entry", examples=["hypotheses.best"]),
    key("form", "object", "Fields that the answer fills, declared as parameters are; they become outputs.",
        read="gate", moment="checks", also="gate_entry label_gate", values="parameter",
        examples=[{"comment": {"type": "string", "description": "What to mend"}}]),
    key("approvers", "approvers", "Who may decide.", read="gate", also="gate_entry label_gate",
        examples=[{"roles": ["release"], "count": 1}]),
    key("expires", "duration", "How long a gate waits.", read="gate", also="gate_entry label_gate"),
    key("on_expiry", "string", "What happens when the time is over; never an approval.", read="gate",
        also="gate_entry label_gate", enum="reject escalate fail", default="reject"),
    key("escalate", "approvers", "Who decides when the time is over and `on_expiry` is `escalate`.", read="gate",
        also="gate_entry label_gate"),
    key("on_reject", "reject", "What a rejection leads to: `fail`, a task, or `{rework: task, max: n}`.", read="gate",
        also="gate_entry"),
    key("window", "id", "The review window of the gate. One approval of this name decides all gates of the window.",
        read="gate", also="gate_entry label_gate"),
    key("cwd", "string", "The working directory of the task and of the tasks inside it (a linked subplan has its "
        "own), relative to the plan's project.", read="text", moment="before", idle="linked people",
        hands="steps agent calls", also="defaults service",
        meant="working_directory workdir work_dir workingDir workingDirectory dir directory chdir working-directory"),
    key("shell", "string", "The interpreter of `run`, here and in the tasks inside.", read="text", idle="linked",
        hands="steps agent calls", also="defaults service", default="sh -e", examples=["bash -e", "python"]),
    key("env", "environment", "Environment variables of the task, and of the tasks inside it; a linked subplan has "
        "its own.", read="env", guards=True, aliases="environment", inside="digits", moment="before",
        idle="linked people",
        hands="steps agent calls", also="defaults service", meant="environment envs"),
    key("secrets", "secrets", "Credentials that the task is given.", read="data", guards=True, also="service"),
    key("environment", "object string array", "Another name of `env` where it is a mapping; else a note about where "
        "the task runs.", read="note", change="prose", title="environment", values="string number boolean null"),
    key("stdin", "string number boolean", "What the script or the program reads from its standard input: text with "
        "templates; any other value arrives as JSON.", read="plain_text", inside="digits", moment="before",
        also="service", examples=["{{ tasks.find.outputs.names }}"]),
    key("ready", "string", "What tells that the service is ready: an address of this machine that answers, or a "
        "text in its output.", read="ready", moment="before", only="service",
        pattern=r"^((tcp|http)://(127\.0\.0\.1|localhost|\[::1\])[:/]|log: *\S)",
        expected="`ready` is tcp://127.0.0.1:PORT, an http address of 127.0.0.1, or `log: TEXT` of its output",
        examples=["tcp://127.0.0.1:5432", "http://127.0.0.1:8080/health", "log: ready to accept connections"]),
    key("stdout", "string", "What standard output becomes: the output `value`, as text, JSON, or a list of lines. "
        "The members of a JSON object become outputs of their own, unless just one output is declared that the "
        "object does not have.", read="word", idle="containers people", hands="calls", also="defaults",
        enum="text json lines"),
    key("timeout", "computed_duration", "The most time for one attempt.", read="times", moment="before", change="how",
        idle="people", also="defaults", meant="~timeout-minutes ~timeout_minutes ~timeoutSec ~timeout_seconds"),
    key("timebox", "duration", "The most time for the task with all its attempts.", read="times", change="how",
        idle="people", also="defaults"),
    key("heartbeat", "duration", "An attempt that prints nothing for so long is stuck: it is stopped and fails with "
        "the class `stalled`.", read="times", change="how", idle="containers people", also="defaults"),
    key("watchdog", "array", "What is done with an attempt that takes long, step by step.", read="times", change="how",
        idle="people", also="defaults", items="watch", minItems=1,
        examples=[[{"after": "5m", "do": "warn"}, {"after": "10m", "do": "cancel"}]]),
    key("retry", "retry", "How often a failing task is tried: a number of attempts, or a mapping.", read="times",
        moment="before", change="how", idle="people", also="defaults service",
        meant="retries retry_count max_retries",
        examples=[3, {"attempts": 3, "backoff": "exponential", "on": ["transient"]}]),
    key("on_doubt", "string", "What settles an attempt whose end a crash left unknown.", read="word", change="how",
        idle="containers people", hands="agent calls", also="defaults", enum="probe retry ask rollback fail"),
    key("allow_failure", "boolean", "The run goes on as if the task had not been asked for when it fails.",
        read="flag", guards=True, aliases="continue_on_failure continue_on_error", change="how", also="defaults",
        meant="~continueOn ~continue_on continueOnError ignore_errors ignore_error ignore_failure", default=False),
    key("fresh", "fresh", "When the task counts as done: its files and its call are as they were when it completed. "
        "With `never` it always runs when the run reaches it, whatever its inputs.", read="fresh",
        field="fresh renewed", moment="facts", idle="people"),
    key("budgets", "budgets", "Limits for this task.", read="times", guards=True, aliases="budget", inside="budgets",
        change="how",
        also="defaults"),
    key("policy", "policy", "Rights of this task: they narrow those of the plan.", read="data", guards=True,
        change="how",
        also="service"),
    key("effect", "string", "What a repetition does: nothing (`pure`, `read`), nothing more (`idempotent`), "
        "something that can be found out (`checkable`), or harm (`unsafe`).", read="word", change="how", hands="calls",
        also="defaults", enum="pure read idempotent checkable unsafe"),
    key("effects", "string array object", "What the task changes in the world, for people.", read="note",
        change="prose"),
    key("expect", "criteria", "What must hold for the task to count as completed.", read="criteria", guards=True,
        aliases="success_criteria criteria", moment="after", meant="outcome"),
    key("ok_codes", "integer array", "The exit codes with which the task is completed; `0` counts only where it is "
        "listed.", read="criteria", field="expect", moment="after", items=one("integer", minimum=0, maximum=255),
        minItems=1, uniqueItems=True, minimum=0, maximum=255, examples=[[0, 3]]),
    key("postconditions", "criteria", "What must hold after the task.", read="criteria", guards=True, moment="after"),
    key("validation", "string array object", "What has to hold of the result: expressions or words, as under "
        "postconditions; a mapping is for people.", read="validation", field="postconditions notes", moment="after"),
    key("failure_modes", "array", "Failures the author foresaw: `{name, detect, recover}`.", read="flow", guards=True,
        moment="detect", change="how", items="failure_mode"),
    key("outputs", "outputs", "Declared results: a mapping from name to type, template or declaration, or a list of "
        "files.", read="outputs", moment="after"),
    key("artifacts", "artifacts", "Files to keep by content when the task completes.", read="artifacts",
        moment="before", idle="containers people", meant="produces generates"),
    key("evidence", "string array object", "Evidence for or against a hypothesis (`{hypothesis, supports, refutes, "
        "weight}`), and what is shown or kept as proof. Gates read from it: `{file, schema}` for `schema`, `{junit: "
        "path}` for `tests`, `{diff: range or path}` for `diff`.", read="evidence", moment="after", change="how",
        also="gate_entry label_gate", items="evidence",
        examples=[[{"hypothesis": "race", "supports": "exit_code != 0", "weight": "strong"}]]),
    key("checkpoint", "checkpoint", "When the task has completed the files of the working directory are kept, "
        "before anything that waits for it starts: `true` for all of them, or `paths`. They can be put back with "
        "`resume --from … --restore-files`.", read="checkpoint", change="how", also="defaults",
        examples=[True, {"paths": ["build/**"]}]),
    key("backup", "texts", "Patterns of files that are saved before the task starts and put back when it is rolled "
        "back.", read="texts", moment="before", change="how", idle="containers people", examples=[["config/*.yaml"]]),
    key("rollback", "action", "What undoes the task: a capability or a script. Registered before the task starts.",
        read="action", inside="action", moment="after", change="how", idle="people", meant="undo"),
    key("irreversible", "boolean", "The effect of the task cannot be undone; a rollback leaves it as it is.",
        read="flag", guards=True, change="how", also="defaults", apart="rollback", default=False),
    key("reflect", "boolean object", "Have a model reflect on the task once it has ended. Its suggestions do not "
        "affect the run.", read="reflect", examples=[True, {"rubric": "could this be faster?"}], keys=_REFLECT),
    key("on_success", "on_success", "Where control goes when the task completes: an id, a list, or `{to, when}`.",
        read="edges", field="edges", inside="edges", moment="after", change="place"),
    key("on_failure", "on_failure", "Where control goes when the task fails: an id (the run still fails), `{to, "
        "recovers: true}` (the target stands in for the task), or `{rework: task, max: n}` (back to an earlier "
        "task).", read="edges", field="edges", inside="edges", moment="after", change="place"),
    key("next", "next", "Edges in one list: `[{on, to, when}]`, or `[{on, rework, max}]`.", read="edges",
        field="edges", inside="edges", moment="after", change="place"),
    key("ends_plan", "boolean", "When the task completes the plan has completed: nothing else of it begins but "
        "`finally`, and what runs beside it is stopped.", read="flag", guards=True, change="how", default=False),
))
"""In the order in which the formatter writes them."""

# fmt: on


def named(words: str, column: str = "read") -> frozenset[str]:
    """The keys of a task that have one of some words in a column."""
    wanted = words.split()
    return frozenset([row.name for row in TASK.keys if any(word in wanted for word in getattr(row, column).split())])


def aliases(rows: tuple[Key, ...]) -> dict[str, str]:
    """The other names of keys, with the names that they stand for."""
    return {alias: row.name for row in rows for alias in row.aliases.split()}
