"""The shapes of the values in a plan that have a name, with the keys of those that are mappings; see ``keys``."""

from __future__ import annotations

from planrunner.plan.keys import SHARE, TEMPLATE, Key, key, one, steps

_NUMBER = r"[0-9]{1,18}(\.[0-9]{1,18})?"
DURATION = rf"^ *(?=[0-9])({_NUMBER}d)?({_NUMBER}h)?({_NUMBER}m(?!s))?({_NUMBER}s)?({_NUMBER}ms)? *$"
SIZE = rf"^ *{_NUMBER}(([kKMGT]?|[KMGT]i)B)? *$"
NO_CONTROL = r"^(?![\s\S]*[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069])"

# fmt: off

_TO = key("to", "task_id", "The task that the edge leads to.", apart="rework")
_REWORK = (
    key("rework", "task_id", "The earlier task to which the run goes back instead; it and everything after it runs "
        "again."),
    key("max", "integer", "How often the run may go back; needed with `rework`.", minimum=1, maximum=1000),
)
_WHEN = (
    key("when", "expression", "The edge fires only if this holds.", apart="else"),
    key("else", "boolean", "The edge fires where the task ended as it says and no other of its edges fires.",
        default=False),
)
_SUCCESS = (_TO._replace(apart=""), *_WHEN)
_FAILURE = (
    _TO, *_REWORK, *_WHEN,
    key("recovers", "boolean", "If the target completes, it stands in for the failed task, outputs included.",
        default=False),
    key("class", "string", "Only failures of this class or failure mode."),
)
_NEXT = (
    key("on", "string", "`success`, `failure`, `always`, or a failure class or mode.",
        examples=["success", "failure", "always"]),
    _TO, *_REWORK, *_WHEN,
    key("recovers", "boolean", "For failures: if the target completes, it stands in for this task.", default=False),
)

_PLAIN_NAME = {
    "pattern": NO_CONTROL,
    "expected": "a name of an artifact has no control characters: no line breaks, no tabs, no marks of direction",
}
_SIZE = {"pattern": SIZE, "expected": "a size is a number with a unit, such as `500MB` or `2GiB`"}
_SCOPE = {
    "allow": "What is allowed; everything else is refused then.",
    "ask": "What a person is asked for each time.",
    "deny": "What is refused, whatever else says.",
}


def _scope(entries: str) -> tuple[Key, ...]:
    return tuple(key(name, entries, says) for name, says in _SCOPE.items())


_ROWS = (
    key("id", "string", pattern="^[A-Za-z_][A-Za-z0-9_-]*$",
        expected="a name is letters, digits, `-` and `_`, and starts with a letter"),
    key("task_id", "string", pattern=r"^[A-Za-z_][A-Za-z0-9_-]*\*?$",
        expected="a task id is letters, digits, `-` and `_`, and starts with a letter; a `*` at the end names a "
                 "family"),
    key("duration", "string number", pattern=DURATION, minimum=0,
        expected="a duration is a number with a unit, such as `500ms`, `10s`, `5m`, `2h`, `1d` or `1h30m`",
        examples=["30s", "5m", "1h30m"]),
    key("computed_duration", "string number",
        pattern=f"{DURATION}|{TEMPLATE}", minimum=0,
        expected="a duration is a number with a unit, such as `500ms`, `10s`, `5m`, `2h`, `1d` or `1h30m`, or a "
                 "template that gives one", examples=["30s", "5m", "1h30m", "{{ params.limit }}"]),
    key("money", "string number", pattern=rf"^ *\$({_NUMBER})[kM]? *$", minimum=0,
        expected="money is written like `$2` or `$0.50`", examples=["$2", "$0.50"]),
    key("count", "string integer", pattern=rf"^ *{_NUMBER}[kM]? *$", minimum=0,
        expected="a count is a whole number such as `500`, `200k` or `2M`", examples=[500, "200k"]),
    key("expression", "string boolean", examples=['params.env == "prod"', "tasks.test.outputs.failures > 0"]),
    key("texts", "string array", items="string"),
    key("instructions", "string object array", title="text, a file of it, or a list of both", required="file",
        minItems=1, items="text_of_file", keys=(
        key("file", "text_of_file.file"),)),
    key("text_of_file", "string object", title="text, or a file of it", required="file", keys=(
        key("file", "string", "The path of the file, from the folder of the plan."),)),
    key("hook", "object", title="what is to happen to calls", keys=(
        key("tool", "texts", "The tools that it is about: names of tools of the agent, or patterns; default: all.",
            examples=["files.write", ["files.*", "shell"]]),
        key("when", "expression", "A condition over `call.tool`, `call.arguments` and `params`; default: every call.",
            examples=['starts_with(call.arguments.path, "src/")']),
        key("deny", "string", "The call is not made, and the model is told this.", minLength=1),
        key("ask", "string", "A person is asked this before the call is made.", minLength=1),
        key("say", "string", "The model is told this with the result of the call.", minLength=1),)),
    key("hooks", "array", title="a list of hooks", minItems=1, items="hook"),
    key("agent", "object", keys=(
        key("description", "string", "What it is for; other agents that have it as a tool are told this."),
        key("model", "string", "The name of a model under `models` of `planrunner.yaml`."),
        key("fallback", "texts", "Models that stand in for it, in their order."),
        key("parameters", "object", "What is sent with its requests."),
        key("effort", "string", "The reasoning effort of the model.", enum="none low medium high"),
        key("system", "instructions", "The system prompt: text, `{file: PATH}` from the folder of the plan, or a "
            "list of both."),
        key("tools", "texts", "Names of tools that it may call, other agents included."),
        key("denied", "texts", "Tools to exclude from `tools`."),
        key("calls", "hooks", "What happens to calls of its tools."),
        key("memory", "texts", "Layers of memory that it sees: task, project, global."),
        key("policy", "policy", "A policy for its tool calls; it can only narrow the policy of the plan."),
        key("context", "task.context", "The context sent before the prompt: a profile, or the name of one under "
            "contexts of planrunner.yaml."),)),
    key("criterion", "string object", maxProperties=1, minProperties=1, keys=(
        key("judge", "string", "Plain words that a judge (a model or a person) decides, never an expression."),
        key("check", "string", "An expression, said explicitly."),)),
    key("criteria", "string array", items="criterion",
        examples=[["exit_code == 0", "duration < 10m"], [{"judge": "backwards compatible"}]]),
    key("environment", "object", values="string number boolean null", title="environment", examples=[{"CI": "1"}]),
    key("parameter", "object string number boolean array null", keys=(
        key("type", "string", "The type of the value.",
            enum="string int number bool duration size money percent list map any", default="any"),
        key("default", "string number boolean null array object", "The value where the caller gives none; without "
            "it the parameter is required."),
        key("required", "boolean", "Whether the caller must give it; true where there is no `default`."),
        key("description", "string", "What the value is for."),
        key("choices", "array string", "The only values allowed; in the form of a gate a template may give the list.",
            pattern=r"\{\{.*\}\}", expected="choices are a list; in the form of a gate a template may give one",
            items="string number boolean", minItems=1),)),
    key("output", "object string number boolean", keys=(
        key("name", "string", "The name, where outputs are written as a list."),
        key("type", "string", "The type of the value: string, int, number, bool, duration, size, money, percent, "
            "list, map or any.", default="any"),
        key("value", "string number boolean null array object", "A template or a constant that gives the value.",
            examples=["{{ stdout }}"]),
        key("path", "string", "A file that holds the value."),
        key("description", "string", "What the value says."),)),
    key("outputs", "object array", values="output", items="output",
        examples=[{"count": "int"}, {"report": {"path": "build/report.json"}}, ["intake.md"]]),
    key("artifact", "object string", **_PLAIN_NAME,
        keys=(
        key("name", "string", "The name under which the file is kept; each file of a pattern is kept as `name/` and "
            "its relative path.", **_PLAIN_NAME),
        key("path", "string", "The file, relative to the working directory. A pattern such as `out/*.csv` keeps "
            "every matching file.", examples=["build/junit.xml"]),
        key("type", "string", "What the file is, such as `junit`, `report` or `list[url]`."),
        key("retention", "string", "How long it is kept: `forever` (or `plan`), until the run has ended (`run`), "
            "for a duration, or so many `versions`.", examples=["plan", "30d", "3 versions"]),
        key("from", "string", "The task that makes it (artifacts of the whole plan)."),
        key("description", "string", "What the file is for."),)),
    key("artifacts", "array", items="artifact"),
    key("budgets", "object", title="budget", keys=(
        key("time", "duration", "The most time it may take."),
        key("cost", "money", "The most money it may cost, in US dollars."),
        key("tokens", "count", "The most tokens that models may use."),
        key("calls", "count", "The most calls to outside services."),
        key("attempts", "count", "The most attempts of all tasks together."),
        key("iterations", "count", "The most rounds of loops."),
        key("depth", "count", "The deepest nesting of subplans and agents."),
        key("warn", "number string", "The share of a limit from which on the run warns: a fraction such as `0.8` or "
            "a percentage such as `80%`.", minimum=0, maximum=1, pattern=SHARE,
            expected="a share is a fraction such as `0.8` or a percentage such as `80%`", examples=["80%"]),
        key("on_exhausted", "string", "What happens when a limit is reached: `stop` starts nothing more, `gate` "
            "asks people.", enum="stop gate", default="stop"),
        key("timeMin", "number", "Another name of `time`, in minutes; `planrunner fmt` writes `time`.", same="time",
            minimum=0),
        key("costUSD", "number", "Another name of `cost`, in US dollars; `planrunner fmt` writes `cost`.", same="cost",
            minimum=0),)),
    key("retry", "object integer string", pattern=TEMPLATE,
        expected="`retry` is a number of attempts, a template that gives one such as `{{ params.tries }}`, or a "
                 "mapping", minimum=1, maximum=1000, keys=(
        key("attempts", "integer string", "How often the task is tried, the first time included.", pattern=TEMPLATE,
            expected="a number of attempts is a whole number, or a template that gives one such as `{{ "
                     "params.tries }}`", minimum=1, maximum=1000, default=3),
        key("backoff", "string", "How the delay grows.", enum="fixed linear exponential", default="exponential"),
        key("delay", "duration", "The wait before the second attempt.", default="1s"),
        key("max_delay", "duration", "The longest wait, also where the other side asks for a longer one "
            "(`Retry-After`).", default="5m"),
        key("jitter", "number string", "The random part of the delay: a fraction such as `0.1` or a percentage such "
            "as `10%`.", minimum=0, maximum=1, pattern=SHARE,
            expected="jitter is a fraction such as `0.1` or a percentage such as `10%`", default=0.1),
        key("on", "string array", "The failure classes that are tried again: `transient`, `logic`, `timeout`, "
            "`stalled`, `interrupted` or a class of a plugin; empty means every class but `policy`.", items="string",
            examples=[["transient"]]),)),
    key("success_edge", "string object", title="edge", required="to", keys=_SUCCESS),
    key("failure_edge", "string object", title="edge", required="to|rework", keys=_FAILURE),
    key("next_edge", "string object", title="edge", required="to|rework", keys=_NEXT),
    key("on_success", "string object array", title="edge", required="to", items="success_edge", keys=_SUCCESS),
    key("on_failure", "string object array", title="edge", required="to|rework", items="failure_edge", keys=_FAILURE),
    key("next", "string object array", title="edge", required="to|rework", items="next_edge", keys=_NEXT),
    key("action", "object string", keys=(
        key("uses", "string", "The capability that is called."),
        key("with", "object", "Its inputs."),
        key("run", "string array", "A script, or a list of arguments without a shell.", inside="digits",
            items="string"),
        key("retry", "retry", "How often it is tried, apart from the retries of the task."),
        key("timeout", "duration", "The most time for each attempt."),)),
    key("watch", "object", required="after do", keys=(
        key("after", "duration", "How long the attempt has been running."),
        key("do", "string", "What is done then: `warn` says so, `ask` waits for a person, `cancel` ends the "
            "attempt, `fail` fails the task.", enum="warn ask cancel fail"),)),
    key("checkpoint", "object boolean", required="paths", examples=[{"paths": ["build/**"]}], keys=(
        key("paths", "texts", "Patterns of the files that are kept, relative to the directory of the run; a folder "
            "stands for all that it holds, and what git ignores is kept as well."),)),
    key("fresh", "object string", pattern="^never$",
        expected="`fresh` is `never`, or a mapping with `inputs`, `outputs` or `when`", minProperties=1,
        examples=[{"inputs": ["src/**"], "outputs": ["build/app"]}], keys=(
        key("inputs", "texts", "Patterns of the files that the task reads; a link counts with what it leads to. "
            "`!pattern` leaves files out. A pattern that no file fits fails the task."),
        key("gitignore", "boolean", "Leave out of the inputs what git ignores.", default=False),
        key("outputs", "texts", "Patterns of the files that it makes; each must be there."),
        key("when", "expression", "The task is done already if this holds; it may read facts, as preconditions do."),)),
    key("breaker", "object", required="uses", keys=(
        key("uses", "string", "The capability, or a pattern such as `http.*`.", examples=["http.*"]),
        key("failures", "integer", "So many failures in a row open the breaker.", minimum=1, maximum=100000, default=5),
        key("cooldown", "duration", "How long nothing is started then.", default="1m"),)),
    key("rollback_policy", "object", title="rollback", keys=(
        key("mode", "string", "`best_effort` goes on after an action that failed, `strict` stops there.",
            enum="best_effort strict", default="best_effort"),
        key("only", "texts", "Ids or labels of the tasks to undo; all without it."),
        key("budgets", "budgets", "Limits of its own, for each rollback: undoing takes nothing from those of the "
            "run.", inside="budgets"),)),
    key("approvers", "object array string", items="string", keys=(
        key("roles", "string array", "Roles whose members may decide.", items="string"),
        key("users", "string array", "People who may decide.", items="string"),
        key("count", "integer", "How many must agree.", minimum=1, default=1),
        key("starter", "boolean", "Whether the person who started the run may decide too. If no person is named, "
            "anyone may.", default=False),)),
    key("reject", "object string", title="on_reject", keys=(
        key("rework", "task_id", "The task to which the run goes back; it and everything after it runs again."),
        key("to", "task_id", "The task that runs then, as after any failure."),
        key("max", "integer", "How often the run may go back.", minimum=1, maximum=1000),)),
    key("option", "object string", keys=(
        key("id", "string", "The name by which the option is chosen."),
        key("title", "string", "One line about it."),
        key("description", "string", "More about it."),
        key("pros", "string array", "What speaks for it.", items="string"),
        key("cons", "string array", "What speaks against it.", items="string"),
        key("cost", "string number", "What it costs, in money, time or words."),
        key("to", "task_id", "The task that runs if it is chosen.", apart="rework max"),
        key("rework", "task_id", "The earlier task to which the run goes back if it is chosen; it and everything "
            "after it runs again, and reads what was said as `rework.comment`."),
        key("max", "integer", "How often the run may go back by this option.", minimum=1, maximum=1000),)),
    key("failure_mode", "object string", title="failure mode", required="name", keys=(
        key("name", "string", "The class the failure gets.", pattern="^[A-Za-z_][A-Za-z0-9_.-]*$",
            expected="a failure mode is named by letters, digits, `-`, `_` and `.`"),
        key("detect", "string", "An expression over the outcome (`exit_code`, `stderr`, `message`, names bound by "
            "`command`), or words.", examples=["exit_code == 75", '"no route" in stderr']),
        key("recover", "string", "The task that stands in for this one, or words."),)),
    key("gate_entry", "object", title="gate", required="id", keys=(
        key("id", "task_id", "The task that the gate belongs to."),)),
    key("label_gate", "object", title="gate of a label", keys=()),
    key("loop", "object", required="tasks", keys=(
        key("max", "integer", "The most rounds; a loop without it is refused.", minimum=1, maximum=100000,
            examples=[5]),
        key("until", "expression", "The loop ends after the round in which this holds."),
        key("at_bound", "string", "What the loop comes to whose `until` is still false after its last round: `fail` "
            "(with the class `exhausted`), or `continue`: it completes, and its output `reached` is false.",
            enum="fail continue", default="fail"),
        key("carry", "object", "Values handed from one round to the next: the first ones, which templates over the "
            "round replace after it."),
        key("breaker", "integer", "So many rounds in a row that change nothing in `carry`, or whose tasks fail in "
            "the same way, end the loop.", minimum=1, maximum=100000, examples=[3]),
        key("checkpoint", "integer", "After every so many rounds the files of the working directory are kept, "
            "before the next round begins.", minimum=1, maximum=100000, examples=[10]),
        key("tasks", "array", "The tasks of one round.", inside="tasks", minItems=1, items="task"),
        steps("tasks"),)),
    key("matrix", "object", minProperties=1, values="array string",
        examples=[{"python": ["3.11", "3.12"], "os": ["linux"]}], keys=(
        key("include", "array", "Combinations to add.", items="object"),
        key("exclude", "array", "Combinations to leave out.", items="object"),)),
    key("host_scopes", "object array string host", title="scope of hosts", items="string host",
        keys=_scope("host_entries")),
    key("host_entries", "string array host", items="string host"),
    key("host", "",
        pattern=r"^(\*|(\*\.)?[^\s/:\[\]*@?#{}]+(:[0-9]{1,5})?|[0-9.]+/(3[0-2]|[12]?[0-9])(:[0-9]{1,5})?|[0-9A-Fa-"
                r"f.]*:[0-9A-Fa-f:.]*(/[0-9]{1,3})?|\[[0-9A-Fa-f:.]+(/[0-9]{1,3})?\](:[0-9]{1,5})?)$",
        expected="an entry is a host such as `example.org` or `*.example.org`, an address, or a network such as "
                 "`10.0.0.0/8`, with or without a `:port`: no `https://` before it, no path after it"),
    key("scopes", "object array string", title="scope", items="string", keys=_scope("scope_entries")),
    key("policy", "object", keys=(
        key("capabilities", "capability_scopes", "Capabilities that are allowed, asked for or denied."),
        key("files", "object", "Files that may be read, written, or not touched at all.", title="file scope", keys=(
            key("read", "string array", "Patterns of files that may be read.", items="string"),
            key("write", "string array", "Patterns of files that may be written.", items="string"),
            key("deny", "string array", "Patterns of files that may not be touched.", items="string"),)),
        key("network", "host_scopes", "Hosts that may be reached.", examples=[{"allow": []}]),
        key("env", "scopes", "Environment variables that tasks may see."),
        key("dependencies", "scopes", "Packages that commands may install, by name; a list of packages by its file, "
            "such as `requirements.txt`."),
        key("tools", "scopes", "Tools that agents may call."),
        key("python", "object", "Rules of the scan of generated Python, such as `network` or `B602`, `*` included.",
            title="scan of Python", examples=[{"deny": ["network"], "ask": ["B*"]}], keys=(
            key("deny", "scope_entries", "Findings of these rules refuse the code."),
            key("ask", "scope_entries", "Findings of these rules need a person who has seen the code."),
            key("allow", "scope_entries", "Findings of these rules are let pass; in planrunner.yaml alone."),)),
        key("sandbox", "string boolean object", "How commands are confined: none, landlock, bubblewrap or docker, "
            "true or false, or limits.", title="sandbox", pattern="^(none|landlock|bubblewrap|docker)$",
            expected="a sandbox is `none`, `landlock`, `bubblewrap` or `docker`", keys=(
            key("cpu", "string number", "Processor seconds of all processes together."),
            key("memory", "string number", "The most memory of all processes together.", **_SIZE, examples=["512MB"]),
            key("time", "duration", "The most time."),
            key("network", "boolean", "Whether the network is open."),
            key("processes", "integer", "The most processes at once.", minimum=1),
            key("output", "string number", "The most output.", **_SIZE, examples=["100MB"]),
            key("files", "integer", "The most files that one process holds open.", minimum=16),
            key("profile", "string", "What shuts commands in.", enum="none landlock bubblewrap docker"),
            key("image", "string", "The image of the profile docker; it has to be there."),)),
        key("labels", "array object", "Labels that demand a gate: a list, or a mapping from label to the gate's "
            "kind.", items="string", values="task.gate"),
        key("gates", "object", "Labels that demand a gate before each task that has one: a mapping from label to "
            "the gate.", values="label_gate", examples=[{"prod": {"approvers": {"roles": ["release"]}}}]),
        key("data", "string object array", "How data is handled."),
        key("foreign", "boolean", "Whether the outputs of the task, or of the tasks of the plan, are untrusted text.",
            default=False),
        key("autonomous", "boolean object", "Whether a run may accept proposed plans without a person, and how many "
            "(true: 3). Only planrunner.yaml can allow it; a plan can only set false.", title="autonomy",
            default=False, keys=(
            key("revisions", "integer", "The most revisions that a run accepts by itself.", minimum=1, maximum=100,
                default=3),)),
        key("requireGateForProd", "boolean", "Tasks with the label `prod` need a gate before them.", default=False),
        key("budgets", "budgets", "Limits that no plan may exceed: the tighter of these and the plan's own counts."),
        key("plans", "object", "Which plans run without being asked about; for planrunner.yaml alone.", title="plans",
            keys=(
            key("outside", "string", "Plans from outside the project that are not trusted: ask, allow or deny.",
                enum="ask allow deny", default="ask"),
            key("inside", "string", "Plans of the project itself.", enum="allow ask", default="allow"),)),)),
    key("secrets", "array object", "Credentials that the task is given: a list of ids from `provider_credentials` "
        "of planrunner.yaml, or a mapping from the variable that brings each.", title="secrets",
        examples=[["registry"], {"NPM_TOKEN": "registry"}, {"KEY_FILE": {"id": "deploy-key", "as": "file"}}],
        items="string", values=one("string object", required="id", keys=(
        key("id", "string", "The credential, by its id."),
        key("as", "string", "How the program finds it: the variable holds the value, the path of a file, or the "
            "path of an open descriptor.", enum="env file fd", default="env"),))),
    key("hypothesis", "object string", keys=(
        key("id", "id", "The name of the hypothesis, in a list."),
        key("statement", "string", "What is claimed, so that it can be refuted."),
        key("title", "string", "A short form of the claim."),
        key("prior", "number string", "How likely it is before any evidence: `0.3` or `30%`.", aliases="confidence",
            minimum=0, maximum=1,
            default="50%"),
        key("rationale", "string", "Why the hypothesis may be true."),
        key("tests", "string array", "The tasks that test it.", items="string"),
        key("evidence", "string array object", "Evidence from before the run, for readers; the confidence uses only "
            "evidence of tasks."),
        key("cost", "string number", "What a test of it costs."),
        key("status", "string", "Status before the run: `open`, `supported` or `refuted`; for readers."),)),
    key("memory", "object array", items="string", keys=(
        key("keys", "string array", "The keys that the plan reads or writes.", items="string"),
        key("layer", "string", "Where they live.", enum="task project global", default="project"),
        key("read", "string array", "Keys that are read.", items="string"),
        key("write", "string array", "Keys that are written.", items="string"),
        key("retention", "string integer", "How many entries, or for how long, are kept."),)),
    key("defaults", "object", keys=(
        key("with", "object", "Inputs for every call of a capability, by its name; those of the task come before "
            "them.", values="object", examples=[{"http.get": {"headers": {"Accept": "application/json"}}}], keys=(
            key("files.read", "inputs_of_files_read"),
            key("files.write", "inputs_of_files_write"),
            key("noop", "inputs_of_noop"),
            key("fail", "inputs_of_fail"),
            key("sleep", "inputs_of_sleep"),)),
        key("agent", "task.agent", "The agent of tasks that have a `prompt` and name none."),)),
    key("subplan_step", "string object", mapping="step"),
    key("inputs_of_shell", "object", open=True, title="input of `shell`", keys=()),
    key("inputs_of_files_read", "object", open=True, title="input of `files.read`", keys=(
        key("path", "string number", "The file to read, relative to the working directory."),
        key("encoding", "string", "How the text is encoded.", default="utf-8"),
        key("max_bytes", "string integer", "A larger file is refused.", default="1MiB"),)),
    key("inputs_of_files_write", "object", open=True, title="input of `files.write`", keys=(
        key("path", "string number", "The file to write, inside the working directory."),
        key("content", "string number boolean", "The whole new text of the file."),
        key("encoding", "string", "How the text is encoded.", default="utf-8"),
        key("mode", "string integer", "Permissions in octal, such as `0644`."),
        key("parents", "boolean string", "Whether missing folders are made.", default=False),)),
    key("inputs_of_noop", "object", open=True, title="input of `noop`", keys=(
        key("value", "string number boolean null array object", "Any value; it is the output `value`."),)),
    key("inputs_of_fail", "object", open=True, title="input of `fail`", keys=(
        key("class", "string", "The failure class: `transient`, `logic`, `policy`, `timeout` or your own.",
            default="logic"),
        key("message", "string number", "What the failure says.", default="failed on request"),)),
    key("inputs_of_sleep", "object", open=True, title="input of `sleep`", keys=(
        key("duration", "string number", "How long to sleep, such as `2s`."),)),
    key("service", "object", required="run ready", keys=(
        key("timeout", "duration", "The most time until the service is ready."),)),
    key("subplan_of_plan", "object string", title="subplan", required="tasks", keys=(
        key("title", "string", "One line for people."),
        key("description", "string", "What it is for."),
        key("params", "object", "Parameters of the subplan.", values="parameter"),
        key("hypotheses", "plan.hypotheses"),
        key("defaults", "plan.defaults"),
        key("env", "plan.env"),
        key("tasks", "array", "The tasks of the subplan.", items="task", minItems=1),
        steps("tasks"),
        key("finally", "plan.finally"),
        key("outputs", "outputs"),
        key("budgets", "budgets"),
        key("on_failure", "plan.on_failure"),
        key("rollback", "plan.rollback"),)),
    key("scope_entries", "string array", items="string"),
    key("capability_scopes", "object array string", title="capability scope", items="capability_entry",
        keys=_scope("capability_entries")),
    key("capability_entries", "string array", items="capability_entry"),
    key("capability_entry", "string object", "A pattern such as `git.*`, or a capability with patterns for what it "
        "is called with.", title="capability entry",
        examples=["git.*", {"uses": "shell", "run": "git push *"}, {"uses": "http.get",
            "with": {"url": "https://api.example.org/*"}}], required="uses", keys=(
        key("uses", "string", "A pattern of capabilities, such as `git.*`."),
        key("with", "object", "Patterns for inputs, by name: all must match.", values="string number boolean"),
        key("run", "string array", "Patterns for the command: words with `*`, or a list of such.", items="string"),)),
    key("evidence", "string object", open=True, keys=(
        key("hypothesis", "string", "The hypothesis that the evidence is about."),
        key("supports", "expression", "A condition on the result; if true, it supports the hypothesis."),
        key("refutes", "expression", "A condition on the result; if true, it refutes the hypothesis."),
        key("weight", "string number", "How many times more likely the result is if the hypothesis is true than if "
            "it is false (the reverse for `refutes`): `weak` (2), `moderate` (5), `strong` (20), or a number up to "
            "100.", default="moderate"),)),
)
# fmt: on

SHAPES = {row.name: row for row in _ROWS}

WITH_INPUTS = ("shell", "files.read", "files.write", "noop", "fail", "sleep")
"""The capabilities whose inputs the schema of plans knows (``inputs_of_…``): they are checked and completed without a
registry, all their values under `with` but text."""


def keys_of(shape: str) -> frozenset[str]:
    """The keys of the mappings of a shape."""
    return frozenset([row.name for row in SHAPES[shape].keys])
