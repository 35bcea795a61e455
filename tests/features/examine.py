"""The examination of a run that lies in a project: every surface shows it, they agree, and its journal bears them out."""

from __future__ import annotations

import datetime as dt
import html
import json
import re
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from jsonschema_rs import validator_for

from features.doors import Answer, Called, Service, call, path, service
from features.truth import UNKNOWN, Truth, needs_of, rows_of
from planrunner.statuses import status_word
from planrunner.views.page.signs import task_sign
from planrunner.views.status import ORDER

Json = Any

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
TASKS = 10
"""Tasks whose own surfaces are looked at: one of each kind first."""
ENDED = ("completed", "failed", "cancelled")
WORKED = (0, 1, 6, 7, 8)
"""Codes of a command that did what it was asked: the run went on, to whatever end."""
BROKEN = re.compile(r"Traceback \(most recent|internal error|this is a fault of planrunner")


def examine(project: Path, run: str, acts: bool = True) -> list[str]:
    """What is not as it must be with a run of a project, a sentence each. With ``acts`` the commands that people are
    told are carried out as well, in copies of the project."""
    with service(project) as served:
        return Examination(project, run, served).findings(acts)


@cache
def _validator(name: str) -> Any:
    return validator_for(json.loads((SCHEMAS / name).read_text()))


@cache
def _described(schema: str) -> Any:
    return validator_for(json.loads(schema))


class Examination:
    """One run under examination."""

    def __init__(self, project: Path, run: str, served: Service) -> None:
        self.project, self.run, self.served = project, run, served
        self.truth = Truth(list(rows_of(project, run)), needs_of(project, run))
        self.found: list[str] = []
        self.shown: Json = {}

    def findings(self, acts: bool) -> list[str]:
        shown = self.json("show", self.run, schema="run.schema.json")
        if shown is None:
            return self.found
        self.shown = shown
        self.texts()
        self.documents()
        self.figures()
        self.pages()
        self.api()
        self.files()
        if acts:
            self.commands()
        return list(dict.fromkeys(self.found))

    def say(self, text: str) -> None:
        self.found.append(text)

    def same(self, where: str, one: Json, other: Json) -> None:
        if one != other:
            self.say(f"{where}: {_cut(one)} here, {_cut(other)} by the journal or `show`")

    # commands

    def called(self, *words: str, codes: Iterable[int] = (0,)) -> Called | None:
        """A command that has to come to one of ``codes``."""
        done = call(self.project, *words)
        if BROKEN.search(done.err) or done.code not in codes:
            self.say(f"`{shlex.join(words)}` exits with {done.code}: {_cut(done.err[-600:] or done.out[-300:])}")
            return None
        return done

    def json(self, *words: str, schema: str = "", codes: Iterable[int] = (0,)) -> Json:
        """The document of a command with `--json`; None where there is none."""
        done = self.called(*words, "--json", codes=codes)
        if done is None:
            return None
        try:
            data = json.loads(done.out)
        except ValueError as error:
            self.say(f"`{shlex.join(words)} --json` prints no JSON: {error}")
            return None
        for error in _validator(schema).iter_errors(data) if schema else ():
            where = "/".join(map(str, error.instance_path))
            self.say(f"`{words[0]} --json` does not fit {schema} at {where}: {_cut(error.message)}")
        return data

    def texts(self) -> None:
        """Every text is there, and says what the figures say."""
        counts = _counts_text(self.counts())
        for words in (
            ("show", self.run),
            ("show", self.run, "--all"),
            ("show", self.run, "--timeline"),
            ("events", self.run),
        ):
            done = self.called(*words)
            if done is None:
                continue
            if words[0] == "show" and counts not in done.out.replace(",\n  ", ", "):
                line = next((each for each in done.out.splitlines() if f"(run {self.run})" in each), done.out[-200:])
                self.say(f"`{words[0]} {' '.join(words[2:])}` counts other than `runs digest`, {counts}: {line}")
        self.called("logs", self.run)
        for task in self.some_tasks():
            self.task(task)
        for words in (
            ("budget", self.run),
            ("checkpoints", self.run),
            ("graph", "--run", self.run),
            ("metrics", self.run),
            ("gates", self.run),
            ("gates",),
            ("runs",),
            ("runs", "digest", self.run),
            ("queue",),
            ("artifacts", "list", "--run", self.run),
            ("audit", "verify", self.run),
        ):
            self.called(*words)
        for form in ("mermaid", "dot", "json"):
            self.called("graph", "--run", self.run, "--format", form)

    def task(self, task: str) -> None:
        """The surfaces of one task."""
        known = self.shown["tasks"][task]
        self.called("show", self.run, task)
        why = self.called("why", self.run, task)
        if why is not None and not why.out.strip():
            self.say(f"`why {task}` says nothing")
        told = self.json("why", self.run, task)
        if told is not None:
            self.same(f"`why {task} --json`: the status", told["status"], known["status"])
        told = self.json("show", self.run, task)
        if told is not None:
            self.same(f"`show {task} --json`: the status", told["status"], known["status"])
        self.called("logs", self.run, task, codes=(0, 3))
        self.called("show", self.run, task, "--inputs", codes=(0, 3))
        self.called("events", self.run, "--task", task, codes=(0, 3))

    def some_tasks(self) -> list[str]:
        """Tasks of the run, one of each kind, at most ``TASKS``."""
        kinds: dict[Json, str] = {}
        for name, task in self.shown["tasks"].items():
            inner = task.get("inner", {}).get("kind", "")
            kinds.setdefault((task["status"], task["reason"], inner, "[" in name, "#" in name, "/" in name), name)
        return list(kinds.values())[:TASKS]

    def counts(self) -> dict[str, int]:
        """How many tasks there are of each status, as the digest has it."""
        return self.digest["tasks"] if self.digest else {}

    @cached_property
    def digest(self) -> Json:
        """What `runs digest` tells of the run."""
        told = self.json("runs", "digest", self.run)
        return next((each for each in told["runs"] if each["run_id"] == self.run), None) if told else None

    # documents

    def documents(self) -> None:
        run = self.run
        listed = self.json("runs", "list", "--limit", "500") or {"runs": []}
        row = next((each for each in listed["runs"] if each["run_id"] == run), None)
        if row is None:
            self.say("`runs --json` does not list the run")
        else:
            for name in ("status", "started", "ended", "duration", "reason"):
                self.same(f"`runs --json`: {name}", row[name], self.shown[name])
            first = self.shown.get("revisions", [{"digest": self.shown["revision"]}])[0]["digest"]
            self.same("`runs --json`: revision", row["revision"], first)  # the plan that the run began with
        told = self.digest
        if told is None:
            self.say("`runs digest` does not tell of the run")
        else:
            for name in ("status", "started", "ended", "reason"):
                self.same(f"`runs digest --json`: {name}", told[name], self.shown[name])
            waits = {each["gate"] for each in told["blockers"] if each.get("gate")}
            missed = {gate["gate"] for gate in self.shown["gates"]} - waits
            if missed:
                self.say(f"`runs digest` has no blocker for {sorted(missed)}")
        budget = self.json("budget", run)
        if budget is not None:
            self.same("`budget --json`", _amounts(budget["budget"]), _amounts(self.shown["budget"]))
        for words in (("checkpoints", run), ("metrics", run), ("metrics",), ("hypotheses", run), ("queue",)):
            self.json(*words, codes=(0, 2, 3) if words[0] == "hypotheses" else (0,))
        told = self.json("replay", run, codes=(0, 10))
        if told is not None and not told["exact"]:
            self.say(f"replay differs: {_cut(told['difference'])}")
        self.json("diff", run, run)
        others = [each["run_id"] for each in listed["runs"] if each["run_id"] != run]
        for other in others[:1]:
            self.json("diff", run, other, codes=(0, 1))
            self.called("diff", run, other, codes=(0, 1))
        self.events()
        self.waiting()

    def events(self) -> None:
        """The journal as it is printed, against its schema."""
        done = self.called("events", self.run, "--json")
        if done is None:
            return
        lines = [json.loads(line) for line in done.out.splitlines()]
        entries = [line for line in lines if "seq" in line]
        self.same("`events --json`: entries", [each["seq"] for each in entries], [row.seq for row in self.truth.rows])
        self.same("`events --json`: kinds", [each["type"] for each in entries], [row.kind for row in self.truth.rows])
        schema = _validator("journal-event.schema.json")
        for row in self.truth.rows:
            for error in schema.iter_errors(row._asdict()):
                self.say(f"the journal does not fit its schema: {row.kind}: {_cut(error.message)}")

    def waiting(self) -> None:
        """What waits for a person is in the list, with commands."""
        every, own = self.json("gates"), self.json("gates", self.run)
        if every is None or own is None:
            return
        mine = {"gates": [gate for gate in every["gates"] if gate["run_id"] == self.run]}
        self.same("`gates --json` of all runs and of this one", _questions(mine), _questions(own))
        asked = {(gate["gate"], gate["visit"]) for gate in own["gates"] if gate.get("visit")}
        opened = {key for key, row in self.truth.open_gates.items() if not _has_expired(row.body)}
        if self.truth.status == "parked" and not self.truth.revised and not self.truth.forked:
            for task, visit in opened - asked:
                self.say(f"gate `{task}` (visit {visit}) is open by the journal and not in `gates --json`")
        for task, visit in asked - self.truth.open_gates.keys():
            self.say(f"gate `{task}` (visit {visit}) is in `gates --json` and not open by the journal")
        self.same("`show --json`: gates", _questions(self.shown), _questions(own))
        told = {gate["gate"] for gate in own["gates"]}
        for name, task in self.shown["tasks"].items():
            if task["status"] == "in_doubt" and name not in told:
                self.say(f"`{name}` is in doubt and not in `gates`")
        if self.shown["status"] == "blocked" and not own["gates"] and not own["windows"] and not own["decided"]:
            self.say(f"the run is blocked ({self.shown['reason']}) and `gates` has no question")
        for gate in own["gates"]:
            if not gate.get("commands"):
                self.say(f"`{gate['gate']}` waits without a command")

    # figures

    def figures(self) -> None:
        """No figure that the rows contradict."""
        truth, shown = self.truth, self.shown
        if truth.status in ENDED:
            self.same("`show`: the status of the run", shown["status"], truth.status)
        elif truth.status == "parked" and shown["status"] not in (
            "paused",
            "blocked",
            "failed",
            "cancelled",
            "completed",
        ):
            self.say(f"`show`: the run is {shown['status']} though no process acts on it")
        self._times()
        for name, task in shown["tasks"].items():
            known = truth.statuses.get(name, "pending")
            if (
                known not in (UNKNOWN, "running", "queued", "blocked", "in_doubt", "pending")
                and known != task["status"]
            ):
                self.say(f"`show`: `{name}` is {task['status']}, {known} by the journal")
            attempts = truth.attempts.get(name, set())
            if not truth.forked and not truth.revised:
                self.same(f"`show`: attempts of `{name}`", task["attempts"], len(attempts))
                self.same(f"`show`: history of `{name}`", len(task["attempt_history"]), len(attempts))
        self._budgets()
        limit = truth.rows[0].body.get("max_parallel")
        if limit is not None and truth.most_at_once() > limit:
            self.say(f"{truth.most_at_once()} attempts at once where {limit} are allowed")
        for task, need in truth.early:
            self.say(f"`{task}` began though `{need}`, which it needs, was not over")
        self._inner()

    def _times(self) -> None:
        rows, shown = self.truth.rows, self.shown
        began = next((row.at for row in reversed(rows) if row.kind == "run_forked"), rows[0].at)
        self.same("`show`: started", shown["started"], _moment(began))
        ended = rows[-1].at if rows[-1].kind == "run_ended" else None
        self.same("`show`: ended", shown["ended"], _moment(ended))
        if ended is not None:
            self.same("`show`: duration", shown["duration"], round(ended - began, 3))
            used = shown["budget"].get("time", {}).get("used")
            if not self.truth.forked and used is not None and used > shown["duration"] + 0.01:
                self.say(f"`show`: {used} s of the budget used in {shown['duration']} s")

    def _budgets(self) -> None:
        for what in ("cost", "tokens"):
            amount = self.shown["budget"].get(what)
            if amount is None or self.truth.forked or self.truth.revised:
                continue
            if amount["used"] is not None and abs(amount["used"] - self.truth.spent(what)) > 1e-6:
                self.say(f"`show`: {what} used is {amount['used']}, {self.truth.spent(what)} by the journal")
        over = {(row.body["scope"], row.body["what"]) for row in self.truth.rows if row.kind == "budget_warned"}
        for where, amounts in (
            ("", self.shown["budget"]),
            *((n, t.get("budget", {})) for n, t in self.shown["tasks"].items()),
        ):
            for what, amount in amounts.items():
                limit, used = amount.get("limit"), amount.get("used")
                if limit is None or used is None or used <= limit + 1e-6 or what == "time":
                    continue
                if not any(each == what for _, each in over):
                    self.say(f"{used} {what} used of {limit} in `{where or 'the plan'}`, and nothing warned")

    def _inner(self) -> None:
        """What a holder says of the tasks inside it."""
        for name, task in self.shown["tasks"].items():
            inner = task.get("inner")
            if inner is None or inner["kind"] != "items":
                continue
            items = [
                each for path, each in self.shown["tasks"].items() if re.fullmatch(re.escape(name) + r"\[\d+\]", path)
            ]
            if items and len(items) != inner["tasks"]:
                self.say(f"`{name}` has {len(items)} items and says {inner['tasks']}")
            failed = sum(each["status"] == "failed" for each in items)
            if items and failed != inner["failed"] and not any(each["status"] == "rolled_back" for each in items):
                self.say(f"`{name}` has {failed} failed items and says {inner['failed']}")

    # the service

    def pages(self) -> None:
        """The page of the run, now and at a moment before, with its drawers; lists, inbox, forms."""
        base, middle = f"/{self.served.project}", self.truth.rows[len(self.truth.rows) // 2].seq
        page = f"{base}/runs/{self.run}"
        asked = [page, f"{page}?at={middle}&rows=all", f"{page}?at=1", f"{page}?rows=all"]
        asked += [f"{page}?task={path(task)}" for task in self.some_tasks()]
        asked += [f"{page}?task={path(task)}&at={middle}" for task in self.some_tasks()[:2]]
        asked += [
            f"{base}/runs",
            f"{base}/inbox",
            f"{base}/inbox?run={self.run}",
            f"{base}/queue",
            f"{base}/knowledge/hypotheses",
        ]
        asked += [f"{base}/knowledge/digest", f"{base}/compare?one={self.run}&other={self.run}", f"{page}/cancel"]
        asked += [f"{base}/inbox/{self.run}/{gate['gate']}" for gate in map(_quoted, self.shown["gates"])]
        answers = dict(zip(asked, self.served.get(asked), strict=True))
        for address, answer in answers.items():
            if answer.status >= 400 and not (answer.status in (400, 409) and address.endswith("/cancel")):
                self.say(f"page {_without(address, self.run)} answers {answer.status}: {_cut(_words(answer.text))}")
        self._told_on(answers[page], f"page {base}/runs/RUN")
        inbox = answers[f"{base}/inbox?run={self.run}"]
        self.found += [f"a fault: {told}" for told in self.served.faults]
        for gate in self.shown["gates"]:
            if gate["gate"].rpartition("/")[2] not in html.unescape(inbox.text):
                self.say(f"`{gate['gate']}` waits and is not in the inbox")

    def _told_on(self, answer: Answer, where: str) -> None:
        """The counts on a page of the run are those of `show`."""
        words = _words(answer.text)
        for status, count in self.counts().items():
            if count and f"{count:,} {(word := task_sign(status).word.lower())}" not in words:
                self.say(f"{where} does not say `{count} {word}`: {_cut(words, 700)}")
                return

    def api(self) -> None:
        """Every address of the API that shows the run, against its description."""
        base = "/api/v1/projects/{project}"
        run = {"project": self.served.project, "run": self.run}
        asked = [
            (f"{base}/runs/{{run}}{rest}", run)
            for rest in ("", "/gates", "/budget", "/hypotheses", "/events", "/revisions", "/proposal")
        ]
        asked += [
            (f"{base}{rest}", run) for rest in ("/runs", "/gates", "/digest", "/queue", "/artifacts", "/triggers")
        ]
        asked.append((f"{base}/runs/{{run}}/diff/{{other}}", {**run, "other": self.run}))
        for task in self.some_tasks():
            asked += [(f"{base}/runs/{{run}}/{each}/{{task}}", {**run, "task": task}) for each in ("why", "inputs")]
        addresses = [_filled(template, values) for template, values in asked]
        addresses += [f"{addresses[0]}/log?task={path(task)}" for task in self.some_tasks()]
        templates = [template for template, _ in asked]
        templates += [f"{base}/runs/{{run}}/log"] * (len(addresses) - len(templates))
        answers = self.served.get(addresses)
        for template, address, answer in zip(templates, addresses, answers, strict=True):
            self._described(template, _without(address, self.run), answer)
        if answers[0].status == 200:
            self._as_shown(answers[0].data, "API /runs/RUN")
            asked_for = answers[1].data
            self.same("API /runs/RUN/gates", _questions(asked_for), _questions(self.shown))

    def _as_shown(self, other: Json, where: str) -> None:
        """Another document of the run has the same figures as `show --json`."""
        for name in ("status", "reason", "exit_code", "started", "ended", "duration", "waiting", "outputs"):
            self.same(f"{where}: {name}", other.get(name), self.shown[name])
        self.same(f"{where}: the tasks", _tasks(other), _tasks(self.shown))
        self.same(f"{where}: the budget", _amounts(other["budget"]), _amounts(self.shown["budget"]))

    def _described(self, template: str, address: str, answer: Answer) -> None:
        if answer.status >= 500:
            self.say(f"API {address} answers {answer.status}: {_cut(answer.text)}")
            return
        document = _openapi(self.served)
        told = document["paths"][template]["get"]["responses"].get(str(answer.status))
        if told is None:
            self.say(f"API {address} answers {answer.status}, which its description does not have")
            return
        if answer.kind not in told.get("content", {answer.kind: {}}):
            self.say(f"API {address} answers {answer.status} as {answer.kind}")
            return
        schema = told.get("content", {}).get(answer.kind, {}).get("schema")
        if schema and answer.kind.endswith("json"):
            for error in _described(json.dumps({**schema, "components": document.get("components", {})})).iter_errors(
                answer.data
            ):
                self.say(f"API {address} does not fit its description: {_cut(error.message)}")
        if answer.status >= 400 and not template.endswith(
            ("/log", "/proposal", "/hypotheses", "/revisions", "/inputs/{task}")
        ):
            self.say(f"API {address} answers {answer.status}: {_cut(answer.text)}")

    # files

    def files(self) -> None:
        """The report, and the archive with what is in it."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.html")
            if self.called("report", self.run, "-o", str(report)):
                self._told_on(Answer(200, {}, report.read_bytes()), "the report")
            packed = Path(folder, "archive.tar")
            if not self.called("archive", self.run, "-o", str(packed)):
                return
            with tarfile.open(packed) as file:
                file.extractall(folder, filter="data")
            found = next(Path(folder).rglob("run.json"), None)
            if found is None:
                self.say("the archive has no run.json")
                return
            self._as_shown(json.loads(found.read_text()), "run.json of the archive")
            for name in ("postmortem.json", "decisions.json", "manifest.json"):
                json.loads((found.parent / name).read_text())
            said = (found.parent / "README.md").read_text()
            if self.shown["status"] not in said:
                self.say(f"the readme of the archive does not say {self.shown['status']}: {_cut(said)}")
            journal = found.parent / "journal" / "run.jsonl"
            done = self.called("replay", str(journal))
            if done is not None and "differ" in done.out:
                self.say(f"the journal in the archive replays otherwise: {_cut(done.out)}")

    # what people are told to type

    def commands(self) -> None:
        """The first command of each kind of question works, in a copy of the project."""
        done: set[Json] = set()
        for gate in self.shown["gates"]:
            kind = (gate["kind"], gate["stage"])
            if kind in done or not gate.get("commands"):
                continue
            done.add(kind)
            self._try(gate["commands"], gate["gate"])

    def _try(self, commands: Sequence[str], name: str) -> None:
        for command in commands:
            if re.search(r"\b[A-Z]{4,}\b|=\.\.\.|…", command):
                continue  # a person fills something in
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder, self.project.name)
                shutil.copytree(self.project, copy, symlinks=True)
                words = [word.partition("|")[0] for word in shlex.split(command)[1:]]  # the first of the answers
                took = call(copy, *words)
                if (took.code not in WORKED and "has expired" not in took.err) or BROKEN.search(took.err):
                    self.say(f"`{command}`, told for `{name}`, exits with {took.code}: {_cut(took.err)}")


_KNOWN: dict[str, Json] = {}


def _openapi(served: Service) -> Json:
    if not _KNOWN:
        _KNOWN.update(served.app.openapi())
    return _KNOWN


def _filled(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", path(value))
    return template


def _quoted(gate: Json) -> Json:
    return {**gate, "gate": "/".join(map(path, gate["gate"].split("/")))}


def _without(address: str, run: str) -> str:
    return address.replace(run, "RUN")


def _questions(document: Json) -> Json:
    return sorted((gate["gate"], gate.get("kind"), gate.get("visit") or 0) for gate in document["gates"])


def _tasks(document: Json) -> Json:
    names = ("status", "attempts", "reason", "detail", "failure", "started", "ended", "outputs")
    return {path: [task[name] for name in names] for path, task in document["tasks"].items()}


def _amounts(budget: Json) -> Json:
    return {what: (amount["used"], amount["limit"]) for what, amount in budget.items() if what != "time"}


def _has_expired(body: Json) -> bool:
    return body.get("expires_at") is not None


def _counts_text(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[each]:,} {status_word(each)}" for each in ORDER if counts.get(each))


def _moment(at: float | None) -> str | None:
    if at is None:
        return None
    moment = dt.datetime.fromtimestamp(int(at * 1000) / 1000, dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(at * 1000) % 1000:03d}Z"


def _words(text: str) -> str:
    """What a person reads of a page."""
    main = text.partition("<main")[2] or text
    main = re.sub(r"<(script|style)\b.*?</\1>", " ", main, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", main)))


def _cut(value: Json, most: int = 300) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= most else f"{text[:most]}…"
