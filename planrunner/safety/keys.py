"""The settings of a project in one table: every section with its keys; ``planrunner.plan.keys`` describes a row.

Made from it: the published schema (``docs/schema_files.py``), and from that the check, completion and the reference.
"""

from __future__ import annotations

from planrunner.plan.keys import Key, key, one

# fmt: off

_NUMBER = r"[0-9]{1,9}(\.[0-9]{1,9})?"
_DURATION = rf"^ *(?=[0-9])({_NUMBER}h)?({_NUMBER}m(?!s))?({_NUMBER}s)?({_NUMBER}ms)? *$"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_SOMETHING = r"\S"
_ADDRESS = r"^https?://[^\s/@]+(/\S*)?$"
_ID = key("id", "string", "Its name.")

_AGENT = (
    key("description", "string", "What it is for."),
    key("model", "string", "The name of a model under models."),
    key("fallback", "names", "Models that stand in for it, in their order."),
    key("parameters", "model.parameters", "What is sent with its requests."),
    key("effort", "string", "The reasoning effort of the model.", enum="none low medium high"),
    key("system", "", "The system prompt: text, {file: PATH}, or a list of both.",
        anyOf=[{"type": "string"}, {"$ref": "#/definitions/text_of_file"}, {"type": "array",
            "items": {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/text_of_file"}]}}]),
    key("instructions", "string", "What it is told before anything else.", apart="system_prompt"),
    key("system_prompt", "string", "Another name of instructions."),
    key("tools", "names", "Names of tools that it may call."),
    key("denied", "names", "Tools to exclude from `tools`."),
    key("calls", "plan:hooks", "What happens to calls of its tools: each entry denies them, asks a person "
        "first, or tells the model something with the result."),
    key("memory", "names", "Layers of memory that it sees: task, project, global."),
    key("policy", "plan:policy", "A policy for its tool calls; it can only narrow the policy of the project."),
    key("context", "", "The context sent before the prompt: a profile, or the name of one under contexts.",
        anyOf=[{"type": "string"}, {"$ref": "#/definitions/context"}]),
)
_TOOL = (
    key("uses", "string", "The capability that it calls, such as files.read."),
    key("description", "string", "What an agent is told of it."),
    key("with", "object", "Inputs that are fixed, whatever the agent says."),
    key("plan", "string", "The plan file to run, relative to planrunner.yaml."),
    key("mcp", "mcp_server"),
    key("tools", "names", "Patterns of the tools of the MCP server that plans may use; default: all."),
)
_SHELL_PROFILE = (
    key("default", "boolean", "Whether the shell begins with it.", default=False),
    key("description", "string", "What it is for."),
    key("profile", "string", "The profile of these settings that commands use."),
    key("session", "string", "The session that it opens; its own name otherwise.",
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
    key("aliases", "object", "Words and the lines that they stand for.", values="string"),
    key("start", "array", "Lines that are carried out when the shell begins.", items="string"),
)


def _listed(name: str, keys: tuple[Key, ...]) -> Key:
    """An entry of a list, which says its name itself."""
    own = tuple(key(row.name, f"{name}.{row.name}", apart=row.apart) for row in keys)
    return key(f"listed_{name}", "object", title=name, required="id", keys=(_ID, *own))


SETTINGS = key("settings", "object", "Settings of the operator, in planrunner.yaml at the root of the project.",
               title="The project's file of planrunner", open=True, keys=(
    key("include", "string array", "Further files with sections, from the root of the project.", items="string",
        examples=[["config/agents.yaml", "config/models.yaml"]]),
    key("profile", "string", "The profile that holds where neither --profile nor PLANRUNNER_PROFILE names one; none "
        "means no profile."),
    key("profiles", "object", "Overlays by name, such as dev, ci, prod: what they say goes before the other "
        "sections, and their policy narrows it.", values="profile"),
    key("people", "object", "Names of people to their roles, such as ana: [release]; without it roles are what "
        "voters claim.", values=one("string array", items="string"), examples=[{"ana": ["release"]}]),
    key("agents", "object array", "Agents by name, or a list of agents with an id: which model, tools and memory "
        "each of them has.", items="listed_agent", values="agent"),
    key("tools", "object array", "What agents may call, by name, or a list of tools with an id.", items="listed_tool",
        values="tool"),
    key("reflect", "boolean object", "Whether models reflect on runs, overriding plans: `false` for no run, `true` "
        "or a mapping for every run. Default: plans decide.", keys=(
        key("agent", "string", "The agent whose model reflects."),
        key("model", "string", "The model that reflects."),
        key("rubric", "string", "What the model looks for."),)),
    key("contexts", "object", "Context profiles by name: the context that agents get before their prompts.",
        values="context"),
    key("memory", "object", "Where the layers of memory are kept, and how much of them.", keys=(
        key("task_store", "store"),
        key("project_store", "store"),
        key("global_store", "store"),
        key("threshold", "number", "Minimum similarity, from 0 to 1, at which memory.advise treats two problems as "
            "the same.", default=0.65, exclusiveMinimum=0, maximum=1),)),
    key("workflow", "string object", "The plan that the project is about.", title="workflow", required="plan", keys=(
        key("plan", "string", "Its file, from the root of the project."),
        key("params", "object", "Parameters that it is run with."),)),
    key("cli_profiles", "object array", "Profiles of `planrunner shell`, by name or as a list with ids.",
        items="listed_cli_profile", values="cli_profile"),
    key("mcp", "object", "What `planrunner mcp` offers to a model beside what reads.", keys=(
        key("actions", "array", "What a model may do with runs; deciding gates is never among it.",
            items=one("", enum="start pause resume cancel retry rerun revise"), default=["start"]),
        key("capabilities", "array", "Patterns of capabilities that a model may call, such as files.read; each must "
            "be allowed by `policy: {capabilities: {allow: …}}` as well.", items="string", default=[]),)),
    key("env_file", "string array", "Files below the project with lines `NAME=value`, set where planrunner runs "
        "something and nothing else sets them; a later file over an earlier one.", items="string", examples=[".env"]),
    key("scheduler", "object", "How much runs at once, and how runs wait for each other.", keys=(
        key("max_parallel", "integer", "The most tasks of one run at once, whatever the plan and --max-parallel say.",
            minimum=1, maximum=10000),
        key("grace", "string number", "How long what is stopped has from TERM to KILL, such as 30s.",
            pattern=_DURATION, minimum=0, expected="a duration is a number with a unit, such as `30s` or `5m`",
            default="2s"),
        key("enabled", "boolean", "Whether runs in the queue wait for each other; without it each starts at once.",
            default=True),
        key("max_concurrency", "integer", "The most runs of the queue at once; those that wait for people do not "
            "count.", minimum=1, default=10),
        key("queue_policy", "string", "Which run comes next.", enum="fifo", default="fifo"),
        key("max_queue_size", "integer null", "The most runs that wait; empty for any number.", minimum=1),
        key("rate_limit", "object", "The most runs that begin within a minute.", title="rate limit",
            required="requests_per_minute", keys=(
            key("requests_per_minute", "integer", "Within a minute.", minimum=1),
            key("burst", "integer", "At once.", minimum=1),)),)),
    key("telemetry", "object", "Traces and metrics of runs for an OpenTelemetry collector, exported by `planrunner "
        "serve`, `planrunner worker` and `planrunner telemetry`. The variables `OTEL_…` go before it.",
        examples=[{"endpoint": "http://localhost:4318"}], keys=(
        key("endpoint", "string", "Address of the collector for OTLP over HTTP; OTEL_EXPORTER_OTLP_ENDPOINT goes "
            "before it.", default="http://localhost:4318", pattern=_ADDRESS,
            expected="the address of a collector starts with `http://` or `https://` and holds no password: "
                     "headers stand in OTEL_EXPORTER_OTLP_HEADERS"),
        key("service", "string", "Name of the service in what is sent; OTEL_SERVICE_NAME goes before it.",
            default="planrunner", minLength=1),
        key("traces", "boolean", "Whether runs are sent as traces, and tasks get TRACEPARENT.", default=True),
        key("metrics", "boolean", "Whether measures are sent as metrics.", default=True),
        key("interval", "string", "How often metrics are sent.", default="60s",
            pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$", expected="write a duration such as `30s` or `5m`"),)),
    key("notify", "array", "Who is told that a run waits for people, failed or is done.", items="notice",
        examples=[[{"on": ["waiting", "failed"], "webhook": {"url": "https://ops.example/planrunner",
            "secret_env": "PLANRUNNER_NOTIFY_SECRET"}}]]),
    key("triggers", "object", "What starts runs by itself, by name: the clock, webhooks, changed files.",
        values="trigger"),
    key("policy", "plan:policy", "What plans may do here, whatever they say themselves."),
    key("network", "object", "What capabilities may connect to.", keys=(
        key("private", "endpoints", "Addresses inside the own network that may be reached: names, addresses, "
            "networks such as 10.0.0.0/8, each with an optional :port."),
        key("allow", "endpoints", "The only hosts that may be reached, *.example.org included; everything public "
            "where it is left out."),
        key("ca", "string", "File with certificates (PEM) of authorities that are trusted beside those of the "
            "system."),)),
    key("models", "object", "Language models by name, and which one is meant where a task names none.", values="model",
        keys=(
        key("default", "string", "The model of tasks that name none."),
        key("judge", "string", "The model that decides criteria in plain words."),
        key("judging", "object", "What one judgement may use at most. Where a plan limits an amount, it is set "
            "aside before the judge is asked; without it people are asked.", keys=(
            key("cost", "number string", "Money, such as $0.05.", pattern=r"^\$?[0-9]+(\.[0-9]+)?$", minimum=0),
            key("tokens", "integer string", "Tokens in and out, such as 20k.", pattern=r"^[0-9]+(\.[0-9]+)?[kM]?$",
                minimum=0),
            key("calls", "integer", "Requests, repairs and fallbacks included.", minimum=0),)),)),
    key("research", "object", "How research.search searches, and as whom research.fetch reads.", keys=(
        key("provider", "string", "Who answers searches: searxng, or a provider that a plugin has registered.",
            default="searxng", pattern=r"^\S+$"),
        key("url", "string", "Address of the search server, such as http://127.0.0.1:8888.", pattern=_ADDRESS,
            expected="the address of a search server starts with `http://` or `https://` and holds no password"),
        key("user_agent", "string", "How requests present themselves; up to the first slash it is the name that "
            "rules in robots.txt are looked up by.", pattern=r"^[\x21-\x7e][\x20-\x7e]*$",
            expected="`user_agent` is a name such as `LibraryBot/2 (+https://library.example)`, on one line"),
        key("robots", "", "Whether robots.txt is honoured.", enum="honour ignore", default="honour"),
        key("options", "object", "What the provider wants to know beside; `engines` is a list of names for "
            "searxng."),)),
    key("dask", "object", "The Dask cluster on which `dask.run` runs.", keys=(
        key("scheduler", "string", "Address of the scheduler; `tcp://` on this machine, `tls://` elsewhere.",
            pattern=r"^(tcp|tls)://[^\s/@]+:[0-9]+$",
            expected="the address of a Dask scheduler looks like `tcp://127.0.0.1:8786` or `tls://host:8786`"),)),
    key("sql", "object", "Databases that plans may use by name.", keys=(
        key("databases", "object", "Name to where the database is.",
            values=one("object", title="database", required="url|url_env", keys=(
            key("url", "string", "Address without a password, such as sqlite:///data.db or postgresql:///shop.",
                apart="url_env", pattern="://"),
            key("url_env", "string", "Variable of the environment that holds the address; for those with a password.",
                pattern=_VARIABLE),
            key("preview", "", "What a preview does: tell the calls (the default), or execute them and roll back.",
                enum="calls rollback"),))),)),
    key("git", "object", "What git may do, and as whom.", keys=(
        key("name", "string", "Name of who commits; default: that of the repository, or of the user."),
        key("email", "string", "Mail address of who commits."),
        key("protocols", "array", "How other repositories may be reached; default: https, http and ssh. `file` is "
            "for local paths.", items=one("", enum="https http ssh git file")),
        key("credentials", "object", "User and secret for each host, such as github.com or 127.0.0.1:8080.",
            values=one("object", required="password", keys=(
            key("username", "string"),
            key("password", "variable", "Name of the environment variable that holds it."),))),
        key("allow_config", "names", "Settings of repositories that are let be although they name programs, such as "
            "filter.lfs.*."),)),
    key("forge", "object", "Where pull requests are opened.", keys=(
        key("kind", "", "What the forge is.", enum="github gitlab gitea"),
        key("url", "string", "Address of its interface; known for github.com and gitlab.com. Gitea's ends in "
            "/api/v1."),
        key("repository", "string", "Owner and name; default: of the remote origin."),
        key("token", "variable", "Name of the environment variable that holds the token."),
        key("credential", "string", "The credential that holds the token, by its id in provider_credentials."),)),
    key("artifacts", "object", "How long artifacts are kept.", keys=(
        key("retention", "string", "For artifacts of tasks that do not say it themselves: forever, run, a duration "
            "such as 30d, or so many versions.",
            pattern=r"^(forever|keep|plan|run|[1-9][0-9]{0,5} *versions?|([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+)$",
            expected="write `forever`, `run`, `7d` or `3 versions`"),)),
    key("plugins", "object", "Capabilities that the project itself has.", keys=(
        key("files", "names", "Python files with capabilities, from the root of the project."),)),
    key("provider_credentials", "array", "Names for secrets, and where each comes from. The secret itself never "
        "stands here.", items="credential"),
))

_ROWS = (
    key("profile", "object", "One overlay: this, and any section but people, include, profile and profiles.",
        open=True, keys=(
        key("description", "string", "What it is for."),)),
    key("agent", "object", "An agent: who answers for it and what it may use.", keys=_AGENT),
    key("cli_profile", "object null", "How the shell begins, and the words that it knows.",
        title="a profile of the shell", keys=_SHELL_PROFILE),
    key("listed_cli_profile", "object", title="a profile of the shell", required="id", keys=(_ID, *_SHELL_PROFILE)),
    _listed("agent", _AGENT),
    key("tool", "object array", "A tool: the capability, plan or MCP server behind it; or a group, a list of tools.",
        items="string", required="uses|plan|mcp", keys=_TOOL),
    key("mcp_server", "string array object", "An MCP server: the command that starts it, its address, or a mapping.",
        title="mcp", pattern=_SOMETHING, minItems=1, items=one("string", pattern=_SOMETHING), required="command|url",
        keys=(
        key("command", "string array", "The program and its arguments, as a list or a string; no shell is involved.",
            apart="url", pattern=_SOMETHING, minItems=1, items=one("string", pattern=_SOMETHING)),
        key("env", "object", "Environment variables of the program.", values="string number boolean"),
        key("secrets", "object", "Environment variables of the program, mapped to ids of credentials.",
            values="string", examples=[{"GITHUB_TOKEN": "github"}]),
        key("url", "string", "The address of the server (streamable HTTP).",
            pattern=r"^https?://[^\s/@?#]+([/?]\S*)?$",
            expected="the address of a server starts with `http://` or `https://` and holds no password"),
        key("headers", "object", "Headers of every request.", values="string"),
        key("credential", "string", "The id of the credential in provider_credentials that requests send, as a "
            "bearer token unless `header` is set."),
        key("header", "string", "The header in which the credential is sent unchanged.", pattern="^[A-Za-z0-9-]+$"),)),
    _listed("tool", _TOOL),
    key("store", "object", "One layer of memory.", keys=(
        key("backend", "string", "How it is kept: a file of JSON lines, a database, or a PostgreSQL server that a "
            "team shares.", enum="file sqlite postgresql", default="sqlite"),
        key("url_env", "string", "Variable of the environment that holds the address of the PostgreSQL database.",
            pattern=_VARIABLE),
        key("retention", "object", "How much of it is kept.", title="retention", keys=(
            key("max_items", "integer", "The most entries; the oldest go first.", minimum=1),
            key("max_age", "string", "How long to keep an entry after its last change, such as 90d; default: 30d "
                "for the task layer, no limit for others.", pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$",
                expected="`max_age` is a duration such as `90d` or `12h`"),)),)),
    key("variable", "string", pattern=_VARIABLE),
    key("endpoints", "array", items="endpoint"),
    key("endpoint", "string",
        pattern=r"^(\*\.)?([^\s/:\[\]*]+(/[0-9]{1,2})?(:[0-9]{1,5})?|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(/[0-"
                r"9]{1,3})?|\[[0-9A-Fa-f:.]+(/[0-9]{1,3})?\](:[0-9]{1,5})?)$",
        expected="an entry is a host, an address or a network such as `10.0.0.0/8`, with or without a `:port`",
        examples=["db.internal:5432", "127.0.0.1", "10.0.0.0/8", "[::1]:8080"]),
    key("names", "array", items="string"),
    key("dollars", "string number", pattern=r"^ *\$?[0-9]{1,9}(\.[0-9]{1,9})? *$", minimum=0,
        expected="a price is dollars for a million tokens, such as `0.15` or `$2.50`"),
    key("model", "object", "A language model: who serves it, under which name, and what it costs.", title="",
        required="provider model", keys=(
        key("provider", "", "Whose requests it understands.", enum="openai openai-compatible anthropic google ollama"),
        key("model", "string", "Its name at the provider."),
        key("base_url", "string", "Where it is served, if not at the provider's usual address.",
            pattern="^https?://[^/@ ]+(/[^ ?#]*)?$",
            expected="an address is written like `https://models.example.com/v1`, without user, password and query"),
        key("key_env", "string", "The variable that holds the key.", pattern=_VARIABLE,
            expected="this is the name of a variable, such as `OPENAI_API_KEY`, never the key itself"),
        key("key_file", "string", "The file that holds the key."),
        key("parameters", "object", "What is sent with every request, unless the task says otherwise.", keys=(
            key("temperature", "number", minimum=0, maximum=2),
            key("max_tokens", "integer", minimum=1),
            key("top_p", "number", minimum=0, maximum=1),
            key("seed", "integer"),
            key("stop", "string array", items="string"),
            key("presence_penalty", "number", minimum=-2, maximum=2),
            key("frequency_penalty", "number", minimum=-2, maximum=2),)),
        key("price", "object", "Dollars for a million tokens, where the price is not known or another one was "
            "agreed.", required="input output", keys=(
            key("input", "dollars"),
            key("output", "dollars"),)),
        key("fallback", "names", "The models that stand in for it, in their order."),
        key("timeout", "string number", "How long one request may take.", pattern=_DURATION, minimum=0,
            expected="a duration is a number with a unit, such as `30s` or `5m`"),
        key("structured", "", "How it is held to a schema: by the provider, or by the words of the request.",
            enum="native prompted"),
        key("dimensions", "integer", "Length of the vectors of llm.embed.", minimum=1),
        key("credential", "string", "The credential that holds the key, by its id in provider_credentials."),)),
    key("credential", "object", "A name for a secret and its source.", required="id auth", keys=(
        key("id", "string", "By which tasks, models and the forge refer to it.",
            pattern="^[A-Za-z][A-Za-z0-9_.-]{0,63}$",
            expected="an id begins with a letter and holds letters, digits, `_`, `-` and `.`"),
        key("provider", "string", "Whose it is, for people."),
        key("auth", "auth"),
        key("config", "object", "What the provider needs beside.", open=True, keys=(
            key("base_url", "string", "Where it is reached, for people.", pattern="^https?://[^/@ ]+(/[^ ?#]*)?$",
                expected="an address is written like `https://models.example.com/v1`, without user, password and "
                         "query"),
            key("default_model", "string", "The model it is meant for, for people."),)),)),
    key("auth", "object", "Where the secret comes from.", title="source", required="source",
        allOf=[{"if": {"properties": {"source": {"const": "env"}}, "required": ["source"]},
            "then": {"required": ["env_var"]}}, {"if": {"properties": {"source": {"const": "file"}},
            "required": ["source"]}, "then": {"required": ["file_path"]}},
            {"if": {"properties": {"source": {"const": "command"}}, "required": ["source"]},
            "then": {"required": ["command"]}}, {"if": {"properties": {"source": {"const": "keyring"}},
            "required": ["source"]}, "then": {"required": ["service", "username"]}}], keys=(
        key("type", "", "What kind of secret it is.", enum="api_key"),
        key("source", "", "A variable of the environment, a file, what a command prints, or the keyring of the "
            "system.", enum="env file command keyring"),
        key("env_var", "string", "With env: the variable that holds it. Tasks that do not declare the credential do "
            "not see it.", apart="file_path command", pattern=_VARIABLE,
            expected="this is the name of a variable, such as `DEPLOY_TOKEN`, never the secret itself"),
        key("file_path", "string", "With file: its path, from the folder of the project or from ~.", apart="command",
            pattern=_SOMETHING),
        key("file_key", "string", "With file: the key in a JSON, YAML or NAME=value file; dots lead inwards.",
            pattern=_SOMETHING),
        key("command", "array", "With command: program and arguments, such as [pass, show, deploy]. No shell is "
            "involved.", items="string", minItems=1),
        key("timeout", "string number", "With command: how long it may take; default 30s.", pattern=_DURATION,
            minimum=0, expected="a duration is a number with a unit, such as `30s` or `5m`"),
        key("service", "string", "With keyring: the service it is kept for."),
        key("username", "string", "With keyring: the user it is kept for."),)),
    key("text_of_file", "object", title="file", required="file", keys=(
        key("file", "string", "A text file, relative to planrunner.yaml."),)),
    key("context", "object", "The context that an agent gets before its prompt.", keys=(
        key("tokens", "integer string", "The token limit of the context; each byte counts as one token.",
            pattern=r"^ *[0-9]{1,18}(\.[0-9]{1,18})?[kM]? *$", minimum=1, default=32000,
            expected="`tokens` is a whole number such as `12000` or `12k`"),
        key("include", "array", "The parts of the context, the most important first; default: every part that the "
            "other keys fill.", minItems=1, uniqueItems=True, items="part"),
        key("skills", "names", "Markdown files with instructions."),
        key("files", "names", "Files of the project, or patterns."),
        key("memory", "object", "Memory entries that match the prompt.", title="memory", keys=(
            key("layers", "names", "Layers of memory: task, project, global; default: those of the agent."),
            key("limit", "integer", "The most memory entries.", minimum=1, default=5),)),)),
    key("part", "string", enum="skills plan task results memory files"),
    key("trigger", "object", "What starts runs of a plan by itself: the clock, a webhook or a changed file.",
        required="plan cron|webhook|watch", keys=(
        key("description", "string", "What it is for."),
        key("plan", "string", "The plan that it starts: its name, or its path from the root of the project.",
            minLength=1),
        key("params", "object", "Parameters of each run."),
        key("priority", "integer", "Runs of a higher priority come first.", default=0),
        key("overlap", "string", "While an earlier run of it is not over: skip starts none (the default of cron and "
            "watch), queue lets the run wait its turn (the default of webhooks), cancel ends the earlier run.",
            enum="skip queue cancel"),
        key("cron", "string", "Time table: minute, hour, day of the month, month, day of the week, such as 30 2 * * "
            "1-5.", minLength=1),
        key("timezone", "string", "Time zone of the time table, such as Europe/Berlin.", minLength=1, default="UTC"),
        key("missed", "string", "Times at which nothing could start, such as a night without a worker: last starts "
            "one run for all of them, all one for each, skip none.", enum="last all skip", default="last"),
        key("webhook", "object", "A signed POST to /hooks/PROJECT/NAME of the service.", title="webhook",
            required="secret", keys=(
            key("secret", "string", "The credential with the secret that requests are signed with.", minLength=1),
            key("scheme", "string", "How requests are signed: standard (Standard Webhooks: webhook-id, "
                "webhook-timestamp, webhook-signature) or github (X-Hub-Signature-256).", enum="standard github",
                default="standard"),
            key("window", "string number", "How long a signature is good for; github signs no time.",
                pattern=_DURATION, minimum=0, expected="a duration is a number with a unit, such as `30s` or `5m`",
                default="5m"),
            key("params", "object", "Parameter to the place of its value in the JSON body, such as ref: "
                "head_commit.id.", values=one("string", minLength=1)),)),
        key("watch", "string array", "Patterns of files of the project, such as docs/**/*.md; a change of one "
            "starts a run.", minLength=1, items=one("string", minLength=1), minItems=1),
        key("settle", "string number", "How long changed files have to stand still.", pattern=_DURATION, minimum=0,
            expected="a duration is a number with a unit, such as `30s` or `5m`", default="1s"),)),
    key("notice", "object", "One receiver: `terminal`, `webhook` or `apprise_env`.", title="receiver of notices",
        required="terminal|webhook|apprise_env", keys=(
        key("on", "array", "What it is told of.", items=one("", enum="waiting failed done cancelled"), minItems=1,
            uniqueItems=True, default=["waiting", "failed", "done"]),
        key("plans", "names", "Ids of the plans whose runs it is told of, as patterns such as release*; without "
            "them all."),
        key("terminal", "", "A line at the terminal of the service or worker.", apart="webhook apprise_env",
            const=True),
        key("webhook", "object", "Gets a signed POST with JSON.", apart="apprise_env", title="webhook",
            required="url secret_env", keys=(
            key("url", "string", "Its address.", pattern=_ADDRESS,
                expected="the address of a webhook starts with `http://` or `https://` and holds no password"),
            key("secret_env", "string", "Variable with the secret that signs what the webhook gets.",
                pattern=_VARIABLE),)),
        key("apprise_env", "string", "Variable with an address of Apprise, such as mailto://… or slack://…",
            pattern=_VARIABLE),)),
)
# fmt: on

SHAPES = {row.name: row for row in _ROWS}
"""The values of settings that have a name."""
