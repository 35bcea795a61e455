"""The rows of the table: what is run, beside whom, and which figure must stay under which bar."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import graphs
import peers
from graphs import Graph
from measure import CommandFailed, Contender, Sample, Spread, in_turn, peaks, ratios, run_once, spread, walls


class Line(NamedTuple):
    """One figure: ``value`` in ``unit`` must be at most ``bar`` (at least, where ``least`` is set) and ought to reach
    ``goal``; ``None`` bars are quoted for comparison only."""

    row: str
    what: str
    value: Spread
    unit: str
    bar: float | None
    goal: float | None
    least: bool = False
    detail: str = ""


class Bench(NamedTuple):
    """What every row gets: where to work, how often, the environment that holds planrunner."""

    folder: str
    rounds: int
    environment: peers.Environment
    slow_rounds: int

    def work(self, name: str) -> str:
        """An empty folder of the row."""
        folder = os.path.join(self.folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        return folder

    def planrunner(
        self, name: str, folder: str, *arguments: str, before: Callable[[], None] | None = None
    ) -> Contender:
        """planrunner with its state in ``folder``; the journal is on and survives power loss, as it always is."""
        program = [self.environment.python, self.environment.program("planrunner"), *arguments]
        env = {**peers.clean_env(), "PLANRUNNER_STATE": os.path.join(folder, ".planrunner")}
        return Contender(name, program, folder, env, before)

    def python(self, folder: str) -> Contender:
        return Contender("python -c pass", [self.environment.python, "-c", "pass"], folder, peers.clean_env())


def _ninja(folder: str, name: str, text: str, *arguments: str) -> Contender:
    path = graphs.write(folder, f"{name}.ninja".replace(" ", "-"), text)
    program = peers.ninja()
    return Contender(name, [program, "--quiet", "-f", path, *arguments], folder, peers.clean_env())


def _doit(folder: str, text: str, ways: int) -> Contender:
    inner = os.path.join(folder, "doit")
    graphs.write(inner, "dodo.py", text)
    environment = peers.peer("doit")
    program = [environment.python, environment.program("doit"), "-n", str(ways), "-P", "thread"]
    return Contender("doit", program, inner, peers.clean_env())


def _edited(path: str, text: str) -> Callable[[], None]:
    """Gives the plan another text before each round, so that nothing kept from an earlier round fits."""
    count = 0

    def edit() -> None:
        nonlocal count
        count += 1
        graphs.write(os.path.dirname(path), os.path.basename(path), f"# sight {count} {time.monotonic_ns()}\n{text}")

    return edit


def _milliseconds(samples: Sequence[Sample]) -> str:
    figures = walls(samples)
    cpu = spread([sample.cpu for sample in samples]).median
    return f"{figures.median * 1000:.1f} ms ({figures.low * 1000:.1f}–{figures.high * 1000:.1f}, cpu {cpu * 1000:.0f})"


def _beside(names: Sequence[str], samples: dict[str, list[Sample]]) -> str:
    return "; ".join(f"{name} {_milliseconds(samples[name])}" for name in names)


def cold_start(bench: Bench) -> list[Line]:
    """S1: one task that runs ``true``, the plan seen before, new, and new in a folder without any state."""
    folder = bench.work("s1")
    text = graphs.plan_text(graphs.single())
    seen, fresh = (graphs.write(folder, name, text) for name in ("seen.yaml", "new.yaml"))
    empty = os.path.join(folder, "empty")
    graphs.write(empty, "plan.yaml", text)

    def forget() -> None:
        shutil.rmtree(os.path.join(empty, ".planrunner"), ignore_errors=True)

    samples = in_turn(
        [
            bench.python(folder),
            bench.planrunner("seen before", folder, "exec", seen),
            bench.planrunner("first sight", folder, "exec", fresh, before=_edited(fresh, text)),
            bench.planrunner("no state yet", empty, "exec", "plan.yaml", before=forget),
            _doit(folder, graphs.doit_text(graphs.single()), 1),
        ],
        max(bench.rounds, 11),
    )
    python = samples["python -c pass"]

    def line(name: str, what: str, bar: float | None, goal: float | None) -> Line:
        detail = _beside([name, "python -c pass"], samples)
        return Line("S1", what, ratios(samples[name], python), "× Python", bar, goal, detail=detail)

    return [
        line("seen before", "`exec` of one `true`, plan seen before", 6, 4),
        line("first sight", "the same at first sight of the plan", 9, 6),
        line("no state yet", "the same in a folder without state", None, None),
        line("doit", "doit, one `true`", None, None),
    ]


def help_and_version(bench: Bench) -> list[Line]:
    """S2: what people and shells ask without running anything; completion as the script of click calls it."""
    folder = bench.work("s2")
    graphs.write(folder, "plan.yaml", graphs.plan_text(graphs.single()))
    completion = bench.planrunner("completion", folder)
    words = {"_PLANRUNNER_COMPLETE": "bash_complete", "COMP_WORDS": "planrunner ex", "COMP_CWORD": "1"}
    samples = in_turn(
        [
            bench.python(folder),
            bench.planrunner("--help", folder, "--help"),
            bench.planrunner("--version", folder, "--version"),
            completion._replace(env={**completion.env, **words}),
        ],
        max(bench.rounds, 11),
    )
    python = samples["python -c pass"]
    return [
        Line("S2", f"`{name}`" if name.startswith("-") else name, ratios(samples[name], python), "× Python", 4, 3.5,
             detail=_beside([name, "python -c pass"], samples))
        for name in ("--help", "--version", "completion")
    ]  # fmt: skip


def looks(bench: Bench, row: str = "S18") -> list[Line]:
    """S18: what people ask about a plan of three tasks and its run, and ``exec`` and ``lint`` of it with one fault."""
    folder = bench.work(row.lower())
    text = graphs.plan_text(graphs.chain(3))
    graphs.write(folder, "plan.yaml", text)
    graphs.write(folder, "wrong.yaml", text.replace("needs:", "neds:"))
    if row == "S19":
        graphs.write(folder, "large.yaml", graphs.plan_text(graphs.layers(10_000), "uses: noop"))
        run_once(bench.planrunner("10,000 tasks", folder, "exec", "large.yaml"))
        for _ in range(1_000):
            run_once(bench.planrunner("one of 1,000", folder, "exec", "plan.yaml"))
    run_once(bench.planrunner("exec", folder, "exec", "plan.yaml"))
    asked = {
        "lint": ("lint", "plan.yaml"),
        "show last": ("show", "last"),
        "why last TASK": ("why", "last", "t000001"),
        "runs": ("runs",),
    }
    wrong = {f"{name} of a fault": (name, "wrong.yaml") for name in ("exec", "lint")} if row == "S18" else {}
    good = bench.planrunner("exec", folder, "exec", "plan.yaml", before=_edited(f"{folder}/plan.yaml", text))
    contenders = [bench.python(folder), good]
    contenders += [bench.planrunner(name, folder, *words) for name, words in asked.items()]
    contenders += [bench.planrunner(name, folder, *words)._replace(exit_codes=(1, 5)) for name, words in wrong.items()]
    samples = in_turn(contenders, max(bench.rounds, 11))
    bar, goal = (8, 5) if row == "S18" else (20, 10)

    def line(name: str, other: str, unit: str, bar: float, goal: float) -> Line:
        return Line(row, f"`{name}`", ratios(samples[name], samples[other]), unit, bar, goal,
                    detail=_beside([name, other], samples))  # fmt: skip

    return [
        *(line(name, "python -c pass", "× Python", bar, goal) for name in asked),
        *(line(name, name.split()[0], "× a good one", 1.2, 1.0) for name in wrong),
    ]


def looks_among_many(bench: Bench) -> list[Line]:
    """S19: the same with 1,000 runs and a run of 10,000 tasks in the folder."""
    return looks(bench, "S19")


def lint(bench: Bench) -> list[Line]:
    """S3: every check with exact positions, 14 lines a task, new text each round; yamllint reads 4 lines a task."""
    lines: list[Line] = []
    per_task: dict[int, list[float]] = {}
    for size in (1_000, 10_000):
        folder = bench.work(f"s3-{size}")
        graph = graphs.fan(size)
        text = graphs.rich_plan_text(graph)
        path = graphs.write(folder, "plan.yaml", text)
        short = graphs.write(folder, "short.yaml", _four_lines(graph))
        graphs.write(folder, "relaxed", "extends: relaxed\nrules: {line-length: disable}\n")
        yamllint = peers.peer("yamllint")
        ours = bench.planrunner("planrunner lint", folder, "lint", path, before=_edited(path, text))
        theirs = Contender(
            "yamllint",
            [yamllint.python, yamllint.program("yamllint"), "-c", "relaxed", short],
            folder,
            peers.clean_env(),
        )
        samples = in_turn([ours, theirs, _ninja(folder, "ninja -n", graphs.ninja_text(graph), "-n")], bench.rounds)
        mine = samples["planrunner lint"]
        per_task[size] = [sample.wall / size for sample in mine]
        detail = _beside(list(samples), samples)
        against = ratios(mine, samples["yamllint"])
        lines += [
            Line("S3", f"lint, {size:,} tasks × 14 lines", against, "× yamllint", 1.0, 0.25, detail=detail),
            Line("S3", f"lint, {size:,} tasks × 14 lines", ratios(mine, samples["ninja -n"]), "× ninja -n",
                 None, 4 if size == 10_000 else None, detail=f"peak {peaks(mine).median:.0f} MiB"),
        ]  # fmt: skip
    growth = spread([large / small for large, small in zip(per_task[10_000], per_task[1_000], strict=True)])
    return [*lines, Line("S3", "cost of a task, 10,000 against 1,000 tasks", growth, "×", 1.2, None)]


def _four_lines(graph: Graph) -> str:
    parts = ["---\nplan: short\ntasks:\n"]
    for number, needs in enumerate(graph.needs):
        parts.append(f"  - id: t{number}\n    title: Task number {number}\n    run: 'true'\n    timeout: 5m\n")
        if needs:
            parts.append(f"    needs: [{', '.join(f't{need}' for need in needs)}]\n")
    return "".join(parts)


class Side(NamedTuple):
    """How a graph is run beside ninja: so many at once, this command, with doit as a third or without."""

    ways: int
    command: str
    doit: bool = False


def _against_ninja(bench: Bench, row: str, graph: Graph, side: Side) -> dict[str, list[Sample]]:
    ways, command, doit = side
    folder = bench.work(f"{row.lower()}-{graph.name}-{ways}")
    path = graphs.write(folder, "plan.yaml", graphs.plan_text(graph, f'run: "{command}"'))
    contenders = [
        bench.planrunner("planrunner", folder, "exec", path, "--max-parallel", str(ways)),
        _ninja(folder, "ninja", graphs.ninja_text(graph, command), f"-j{ways}"),
    ]
    if doit:
        contenders.append(_doit(folder, graphs.doit_text(graph, command), ways))
    return in_turn(contenders, bench.rounds)


def _ninja_line(row: str, what: str, samples: dict[str, list[Sample]], bar: float, goal: float) -> Line:
    ours = samples["planrunner"]
    detail = f"{_beside(list(samples), samples)}; peak {peaks(ours).median:.0f} MiB"
    return Line(row, what, ratios(ours, samples["ninja"]), "× ninja", bar, goal, detail=detail)


def fans(bench: Bench) -> list[Line]:
    """S4, and the half of S7 that belongs to it."""
    lines: list[Line] = []
    for ways, bar, goal in ((2, 2.2, 1.3), (8, 1.8, 1.2)):
        samples = _against_ninja(bench, "S4", graphs.fan(1_000), Side(ways, "true", doit=True))
        lines.append(_ninja_line("S4", f"1,000 `true` and a join, {ways}-way", samples, bar, goal))
        if ways == 2:
            peak = peaks(samples["planrunner"])
            lines.append(Line("S7", "peak memory of S4", peak, "MiB", 64, 40))
    return lines


def programs(bench: Bench) -> list[Line]:
    """S4b: a real program and no shell syntax."""
    samples = _against_ninja(bench, "S4b", graphs.fan(1_000), Side(2, "/bin/true"))
    return [_ninja_line("S4b", "1,000 `/bin/true` and a join, 2-way", samples, 1.2, 0.75)]


def chains(bench: Bench) -> list[Line]:
    """S5: nothing can be done side by side, every outcome is committed before the next start."""
    samples = _against_ninja(bench, "S5", graphs.chain(1_000), Side(2, "true", doit=True))
    return [_ninja_line("S5", "chain of 1,000 `true`", samples, 2.0, 1.4)]


def long_chain(bench: Bench) -> list[Line]:
    """S5-long: completes at all; others die of recursion."""
    folder = bench.work("s5-long")
    path = graphs.write(folder, "plan.yaml", graphs.plan_text(graphs.chain(100_000)))
    sample = run_once(bench.planrunner("planrunner", folder, "exec", path))
    per_task = spread([sample.wall / 100_000 * 1e6])
    detail = f"{sample.wall:.1f} s once; peak {sample.peak:.0f} MiB"
    return [Line("S5", "chain of 100,000 `true` completes", per_task, "µs a task", None, None, detail=detail)]


def _dbos(bench: Bench, folder: str, count: int = 1_000) -> list[float]:
    """Seconds a step of DBOS on SQLite, its start-up left out."""
    environment = peers.peer("dbos")
    script = os.path.join(peers.ROOT, "benchmarks", "dbos_steps.py")
    took: list[float] = []
    for _ in range(bench.slow_rounds):
        done = subprocess.run([environment.python, script, str(count)], cwd=folder, env=peers.clean_env(),
                              capture_output=True, text=True)  # fmt: skip
        if done.returncode:
            raise CommandFailed(f"dbos: {done.stderr[-1500:]}")
        took.append(float(done.stdout.split()[-1]) / count)
    return took


def _times_dbos(theirs: Sequence[float], ours: Sequence[float]) -> Spread:
    """How many times as long DBOS takes; they are not run in the same round, so the medians are compared."""
    mine, other = spread(ours), spread(theirs)
    return Spread(other.median / mine.median, other.low / mine.high, other.high / mine.low)


def noops(bench: Bench) -> list[Line]:
    """S6 and the half of S7 that belongs to it: from the YAML file to the end of the process, nothing subtracted."""
    lines: list[Line] = []
    folder = bench.work("s6")
    shapes = (graphs.fan(10_000), graphs.layers(10_000))
    before = _dbos(bench, folder)
    for graph in shapes:
        text = graphs.plan_text(graph, "uses: noop")
        seen, fresh = (graphs.write(folder, f"{graph.name}-{name}.yaml", text) for name in ("seen", "new"))
        samples = in_turn(
            [
                bench.planrunner("first sight", folder, "exec", fresh, before=_edited(fresh, text)),
                bench.planrunner("seen before", folder, "exec", seen),
            ],
            bench.rounds,
        )
        shape = f"{graph.size:,} `noop`, {graph.name.split('-')[0]}, {graph.edges:,} edges"
        for name in ("first sight", "seen before"):
            each = [sample.wall / graph.size * 1e6 for sample in samples[name]]
            first = name == "first sight"
            detail = f"{_milliseconds(samples[name])}; peak {peaks(samples[name]).median:.0f} MiB"
            lines.append(Line("S6", f"{shape}, {name}", spread(each), "µs a task", 130 if first else None,
                              25 if first else None, detail=detail))  # fmt: skip
            if first:
                faster = _times_dbos([seconds * 1e6 for seconds in before], each)
                theirs = f"DBOS {spread(before).median * 1e6:.0f} µs a step, a commit each"
                lines.append(Line("S6", f"{shape}: DBOS takes", faster, "× our time", 25, None, True, theirs))
        worst = [max(one.peak, other.peak) for one, other in zip(*samples.values(), strict=True)]
        lines.append(Line("S7", f"peak memory of S6, {graph.name.split('-')[0]}", spread(worst), "MiB", 128, 64))
    return lines


def noop_chain(bench: Bench) -> list[Line]:
    """S6b: one task after the other, a commit that survives power loss for each; the one-task plan is subtracted, as
    the start-up of DBOS is."""
    folder = bench.work("s6b")
    graph = graphs.chain(1_000)
    path = graphs.write(folder, "chain.yaml", graphs.plan_text(graph, "uses: noop"))
    one = graphs.write(folder, "one.yaml", graphs.plan_text(graphs.single(), "uses: noop"))
    chain = bench.planrunner("chain", folder, "exec", path)
    before = _dbos(bench, folder)
    samples = in_turn([chain, bench.planrunner("one", folder, "exec", one)], bench.rounds)
    each = [(long.wall - short.wall) / 999 * 1e6 for long, short in zip(samples["chain"], samples["one"], strict=True)]
    detail = f"{_milliseconds(samples['chain'])} less {_milliseconds(samples['one'])}; {_syncs(chain)}"
    theirs = f"DBOS {spread(before).median * 1e6:.0f} µs a step"
    faster = _times_dbos([seconds * 1e6 for seconds in before], each)
    return [
        Line("S6b", "chain of 1,000 `noop`, seen before", spread(each), "µs a task", 450, 290, detail=detail),
        Line("S6b", "chain of 1,000 `noop`: DBOS takes", faster, "× our time", 6, 10, True, theirs),
    ]


def _syncs(contender: Contender) -> str:
    """How often the run waited for the disk, counted by the kernel's own account: the condition of the row."""
    strace = shutil.which("strace")
    if strace is None:
        return "syncs not counted (no strace)"
    counts = os.path.join(contender.cwd, "syncs")
    traced = [strace, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", counts, *contender.arguments]
    run_once(contender._replace(arguments=traced))
    with open(counts, encoding="utf-8") as file:
        return f"{sum('sync(' in line for line in file):,} syncs"


def nested(bench: Bench) -> list[Line]:
    """S10: tasks that come to be while the run goes on, beside as many that stand in the plan (S6, in the same
    rounds)."""
    folder = bench.work("s10")
    plans = {
        "flat": graphs.plan_text(graphs.fan(10_000), "uses: noop"),
        "`foreach` over 10,000 items": graphs.foreach_text(10_000),
        "100 subplans of 100 tasks": graphs.subplans_text(100, 100),
    }
    paths = {name: graphs.write(folder, f"plan-{at}.yaml", text) for at, (name, text) in enumerate(plans.items())}
    samples = in_turn([bench.planrunner(name, folder, "exec", path) for name, path in paths.items()], bench.rounds)
    lines: list[Line] = []
    for name in list(plans)[1:]:
        rate = spread([flat.wall / ours.wall for flat, ours in zip(samples["flat"], samples[name], strict=True)])
        detail = f"{_milliseconds(samples[name])}; S6 {_milliseconds(samples['flat'])}"
        lines.append(Line("S10", f"{name}, `noop`", rate, "× rate of S6", 0.5, None, True, detail))
        lines.append(Line("S10", f"{name}: peak memory", peaks(samples[name]), "MiB", 128, 64))
    return lines


def resume(bench: Bench) -> list[Line]:
    """S8: a chain of 1,000 whose tasks write their number, killed half-way, resumed."""
    size, first, again, missing, python = 1_000, [], [], [], []
    for number in range(bench.slow_rounds):
        folder = bench.work(f"s8-{number}")
        written = os.path.join(folder, "written")
        action = f"run: echo {{n}} >> {written}\n    effect: idempotent\n    on_doubt: retry"
        path = graphs.write(folder, "plan.yaml", graphs.plan_text(graphs.chain(size), action))
        python.append(run_once(bench.python(folder)).wall)
        _kill_at(bench.planrunner("exec", folder, "exec", path), written, size // 2)
        done = _lines(written)
        first.append(_first_new_line(bench.planrunner("resume", folder, "resume", "last"), written, len(done)))
        numbers = _lines(written)
        again.append(float(len(numbers) - len(set(numbers))))
        missing.append(float(size - len(set(numbers))))
    start = spread([one / other for one, other in zip(first, python, strict=True)])
    detail = f"{spread(first).median * 1000:.1f} ms from the start of `resume` to the first new line"
    return [
        Line("S8", "killed half-way, resumed: first new task", start, "× Python", 8, 4, detail=detail),
        Line("S8", "tasks that ran again (one was in flight)", spread(again), "tasks", 1, 1),
        Line("S8", "tasks that never ran", spread(missing), "tasks", 0, 0),
    ]


def fold_and_replay(bench: Bench) -> list[Line]:
    """S9: the record of 10,000 tasks read into a state, and every decision in it made again."""
    folder = bench.work("s9")
    script = os.path.join(peers.ROOT, "benchmarks", "fold_and_replay.py")
    lines: list[Line] = []
    for graph in (graphs.fan(10_000), graphs.layers(10_000)):
        path = graphs.write(folder, f"{graph.name}.yaml", graphs.plan_text(graph, "uses: noop"))
        done = subprocess.run([bench.environment.python, script, path, str(bench.rounds)], cwd=folder,
                              env=peers.clean_env(), capture_output=True, text=True)  # fmt: skip
        if done.returncode:
            raise CommandFailed(f"fold_and_replay: {done.stderr[-1500:]}")
        rounds = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
        shape = f"{graph.name.split('-')[0]} of {graph.size:,} `noop`, {rounds[0][0]:,.0f} events"
        folds = spread([entries / folded for entries, _, folded, _ in rounds])
        replays = spread([again / ran for _, ran, _, again in rounds])
        detail = f"{spread([again for *_, again in rounds]).median * 1000:.0f} ms"
        lines.append(Line("S9", f"fold, {shape}", folds, "events/s", 200_000, 500_000, True))
        lines.append(Line("S9", f"replay, {shape}", replays, "× a run in memory", 1.5, 1, detail=detail))
    return lines


def large(bench: Bench) -> list[Line]:
    """S11: a hundred thousand tasks, read, checked, run and looked at, against a tenth of them."""
    folder = bench.work("s11")
    sizes = (10_000, 100_000)
    costs: dict[str, dict[int, list[Sample]]] = {}
    for size in sizes:
        graph = graphs.layers(size)
        path = graphs.write(folder, f"{graph.name}.yaml", graphs.plan_text(graph, "uses: noop"))
        for name, arguments in (
            ("lint", ("lint", path)),
            ("exec", ("exec", path)),
            ("show", ("show", "last")),
            ("why", ("why", "last", f"t{size - 1:06d}")),
        ):
            contender = bench.planrunner(f"{name} {size}", folder, *arguments)
            costs.setdefault(name, {})[size] = [run_once(contender) for _ in range(bench.slow_rounds)]
    lines = [Line("S11", "lint of 100,000 tasks and 300,000 edges: peak memory",
                  peaks(costs["lint"][100_000]), "MiB", 512, 145)]  # fmt: skip
    for name, found in costs.items():
        small, big = ([sample.wall / size for sample in found[size]] for size in sizes)
        growth = spread([mine / other for mine, other in zip(big, small, strict=True)])
        detail = f"{spread(big).median * 1e6:.0f} µs a task, peak {peaks(found[100_000]).median:.0f} MiB"
        lines.append(
            Line("S11", f"{name}: a task's cost, 100,000 against 10,000", growth, "×", 1.3, 1.1, detail=detail)
        )
    return lines


def _lines(path: str) -> list[str]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().split()


def _start(contender: Contender) -> int:
    os.chdir(contender.cwd)
    actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    return os.posix_spawn(contender.arguments[0], list(contender.arguments), dict(contender.env), file_actions=actions)


def _kill_at(contender: Contender, written: str, lines: int) -> None:
    pid = _start(contender)
    while len(_lines(written)) < lines:
        if os.waitpid(pid, os.WNOHANG)[0]:
            raise CommandFailed("the run ended before it could be killed")
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    time.sleep(0.3)  # what was in flight ends and writes, or is ended


def _first_new_line(contender: Contender, written: str, known: int) -> float:
    """Seconds from the start of ``resume`` until a task that had not run before has written."""
    size = os.path.getsize(written)
    old = set(_lines(written))
    started = time.monotonic()
    pid = _start(contender)
    took = 0.0
    while not took:
        if os.path.getsize(written) > size and set(_lines(written)) - old:
            took = time.monotonic() - started
        elif os.waitpid(pid, os.WNOHANG)[0]:
            raise CommandFailed(f"resume ended after {known} tasks without a new one")
        else:
            time.sleep(0.0005)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise CommandFailed(f"resume ended with {os.waitstatus_to_exitcode(status)}")
    return took


def redaction(bench: Bench) -> list[Line]:
    """S12: output with fifty secrets in all their spellings looked for."""
    script = os.path.join(peers.ROOT, "benchmarks", "redaction.py")
    done = subprocess.run([bench.environment.python, script, str(bench.rounds)], cwd=bench.work("s12"),
                          env=peers.clean_env(), capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        raise CommandFailed(f"redaction: {done.stderr[-1500:]}")
    names, *rounds = [line.split() for line in done.stdout.splitlines()]
    return [
        Line(
            "S12",
            f"redaction with 50 secrets, {name}",
            spread([float(each[at]) for each in rounds]),
            "MB/s",
            50,
            100,
            True,
        )
        for at, name in enumerate(names)
    ]


def memory(bench: Bench) -> list[Line]:
    """S17: what is remembered, found by vector and by text."""
    script = os.path.join(peers.ROOT, "benchmarks", "memory.py")
    python = peers.with_models(bench.environment).python
    done = subprocess.run(
        [python, script, str(bench.rounds)],
        cwd=bench.work("s17"),
        env=peers.clean_env(),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise CommandFailed(f"memory: {done.stderr[-1500:]}")
    _, *rounds = [line.split() for line in done.stdout.splitlines()]
    whats = (
        "10 nearest of 10,000 vectors of 384 numbers, numpy",
        "10 best of 100,000 notes by five words, common ones among them",
        "10 best of 100,000 notes by five rare words",
    )
    return [
        Line("S17", what, spread([float(each[at]) for each in rounds]), "ms", 20, 5) for at, what in enumerate(whats)
    ]


def agent_rounds(bench: Bench) -> list[Line]:
    """S16: a round of a model call and two tools, against the bare loop of the library; ten rounds are subtracted from
    sixty, so that neither start counts."""
    folder = bench.work("s16")
    environment = peers.with_models(bench.environment)
    program = os.path.join(peers.ROOT, "benchmarks", "agent_rounds.py")
    for name in ("one", "two0", "two1"):
        graphs.write(folder, f"{name}.txt", f"{name}\n")
    contenders, servers = [], []
    for rounds in (10, 60):
        command = [environment.python, program, "serve", str(rounds)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        servers.append(server)
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        inside = os.path.join(folder, str(rounds))
        os.makedirs(inside)
        graphs.write(inside, "planrunner.yaml", _AGENT.replace("ADDRESS", address))
        task = "{id: fix, agent: coder, prompt: Mend it., rounds: 99}"
        path = graphs.write(inside, "plan.yaml", f"plan: mend\ntasks: [{task}]\n")
        for name in ("one", "two0", "two1"):
            shutil.copy(os.path.join(folder, f"{name}.txt"), inside)
        bare = [environment.python, program, "bare", address]
        contenders += [
            bench.planrunner(f"ours {rounds}", inside, "exec", path),
            Contender(f"bare {rounds}", bare, inside, peers.clean_env()),
        ]
    try:
        samples = in_turn(contenders, bench.rounds)
    finally:
        for server in servers:
            server.kill()
            server.wait()
    per = {
        name: [(long.wall - short.wall) / 50 * 1e3 for long, short in zip(samples[f"{name} 60"], samples[f"{name} 10"])]
        for name in ("ours", "bare")
    }
    more = spread([mine - theirs for mine, theirs in zip(per["ours"], per["bare"], strict=True)])
    detail = f"{spread(per['ours']).median:.1f} ms a round, the bare loop {spread(per['bare']).median:.1f} ms"
    return [Line("S16", "a round of an agent with two tools, beyond the bare loop", more, "ms", 3, 1, detail=detail)]


_AGENT = """
network: {private: [127.0.0.1]}
models:
  default: scripted
  scripted:
    provider: openai-compatible
    model: scripted
    base_url: ADDRESS/v1
    price: {input: 1, output: 2}
agents: {coder: {tools: [files.read]}}
"""


PEER_ROUNDS = 3
"""Rounds of the servers of others, each of which takes seconds for a run."""


def _printed(bench: Bench, name: str, seconds: int, *command: str) -> dict[str, Spread]:
    """The figures that a script prints, an object a round: of all rounds, or of those that it is through with after so
    many seconds. What it started ends with it."""
    process = subprocess.Popen(command, cwd=bench.work(name), env=peers.clean_env(), text=True, start_new_session=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        out, errors = process.communicate()
        errors = f"no round after {seconds} s"
        print(f"{name}: {len(out.splitlines())} rounds within {seconds} s, the others left out", file=sys.stderr)
    rounds = [json.loads(line) for line in out.splitlines()]
    if not rounds:
        raise CommandFailed(f"{name}: {errors[-1500:]}")
    return {key: spread([each[key] for each in rounds]) for key in rounds[0]}


def _service(bench: Bench, part: str) -> dict[str, Spread]:
    python = peers.with_service(bench.environment).python
    script = os.path.join(peers.ROOT, "benchmarks", "service.py")
    return _printed(bench, part, 300, python, script, part, str(bench.slow_rounds))


def _prefect(bench: Bench, part: str) -> tuple[dict[str, Spread], str]:
    """The figures of Prefect's server, with its conditions; where it cannot be measured none, and why."""
    script = os.path.join(peers.ROOT, "benchmarks", "service_peers.py")
    try:
        environment = peers.peer("prefect")
        found = _printed(bench, f"{part}-prefect", 150, environment.python, script, "prefect", part, str(PEER_ROUNDS))
        return found, f"Prefect {environment.version('prefect')}, SQLite with `synchronous=NORMAL`"
    except (CommandFailed, peers.PeerMissing) as error:
        return {}, f"Prefect could not be measured: {_cause(error)}"


def _cause(error: Exception) -> str:
    """The line of an error that says most, for a cell of the table."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if "could not be found" in line or "Error" in line] or lines
    return said[-1].replace("|", "/")[:200]


def service_starts(bench: Bench) -> list[Line]:
    """S13: runs of one task started by HTTP, by one client that waits for each and by fifty that start one a second
    each; then as many as the service takes."""
    ours = _service(bench, "starts")
    prefect, told = _prefect(bench, "starts")
    what = "HTTP start to first durable event"
    lines = [
        Line("S13", f"{what}, one client, p50", ours["one p50"], "ms", 25, 10, detail="" if prefect else told),
        Line("S13", f"{what}, one client, p99", ours["one p99"], "ms", 250, None),
        Line("S13", f"{what}, 50 clients, p50", ours["fifty p50"], "ms", 25, 10, detail="50 starts a second"),
        Line("S13", f"{what}, 50 clients, p99", ours["fifty p99"], "ms", 250, None),
        Line("S13", "runs of one `noop` started and ended, 50 clients", ours["runs/s"], "runs/s", 100, 300, True),
    ]
    if prefect:
        what = "Prefect: to the state running"
        lines += [
            Line(
                *("S13", f"{what}, one client", prefect["one p50"], "ms", None, None),
                detail=f"{told}, asks for work once a second",
            ),
            Line("S13", f"{what}, 10 at once", prefect["together p50"], "ms", None, None),
            Line("S13", "Prefect: runs of one task, 10 at once", prefect["runs/s"], "runs/s", None, None, True),
        ]
    return lines


def service_lists(bench: Bench) -> list[Line]:
    """S14: a service that holds 1,000 runs at gates and 200 that go on."""
    ours = _service(bench, "lists")
    prefect, told = _prefect(bench, "lists")
    what = "1,000 runs at gates, 200 going on"
    lines = [
        Line("S14", f"{what}: memory", ours["memory"], "MiB", 400, 250, detail="" if prefect else told),
        Line("S14", f"{what}: idle", ours["idle"], "% of a core", 15, 5),
        *(
            Line("S14", f"{what}: {name}", ours[key], "ms", 30, None)
            for key, name in (
                ("runs", "list of runs"),
                ("gates", "list of gates"),
                ("page of runs", "page of runs"),
                ("inbox", "inbox"),
            )
        ),
    ]
    if prefect:
        what = "Prefect, 1,000 paused runs without a process"
        lines += [
            Line("S14", f"{what}: memory", prefect["memory"], "MiB", None, None, detail=told),
            Line("S14", f"{what}: idle", prefect["idle"], "% of a core", None, None),
            Line("S14", f"{what}: list of runs", prefect["runs"], "ms", None, None),
        ]
    return lines


def service_pages(bench: Bench) -> list[Line]:
    """S15: the pages of runs and plans with 1,000 tasks and with 10,000, and events as they come."""
    ours = _service(bench, "pages")
    prefect, told = _prefect(bench, "pages")
    lines: list[Line] = []
    shown = {f"{size}": f"page of a run with {size:,} tasks" for size in (1_000, 10_000)}
    shown |= {f"plan {size}": f"editor of a plan with {size:,} tasks" for size in (1_000, 10_000)}
    for size, what in {**shown, "plans": "list of plans"}.items():
        paint = ours.get(f"{size} paint")
        detail = "" if paint else "first paint not measured: there is no Chromium or Chrome here"
        lines += [
            Line("S15", f"{what}: server", ours[f"{size} server"], "ms", 100, 50, detail=detail),
            Line("S15", f"{what}: size", ours[f"{size} kB"], "kB", 300, None),
        ]
        if paint:
            lines.append(Line("S15", f"{what}: first paint", paint, "ms", 1000, None))
    rate = f"{ours['events/s'].median:.0f} events a second"
    lines.append(Line("S15", "events that one who follows a run misses", ours["missed"], "events", 0, 0, detail=rate))
    if not prefect:
        return [lines[0]._replace(detail="; ".join(filter(None, (lines[0].detail, told)))), *lines[1:]]
    what = "Prefect: graph of a run with 1,000 tasks, which its page fetches"
    return [
        *lines,
        Line("S15", f"{what}: server", prefect["1000 server"], "ms", None, None, detail=told),
        Line("S15", f"{what}: size", prefect["1000 kB"], "kB", None, None),
    ]


ROWS: dict[str, Callable[[Bench], list[Line]]] = {
    "S1": cold_start,
    "S2": help_and_version,
    "S3": lint,
    "S4": fans,
    "S4b": programs,
    "S5": chains,
    "S5-long": long_chain,
    "S6": noops,
    "S6b": noop_chain,
    "S8": resume,
    "S10": nested,
    "S9": fold_and_replay,
    "S11": large,
    "S12": redaction,
    "S13": service_starts,
    "S14": service_lists,
    "S15": service_pages,
    "S16": agent_rounds,
    "S17": memory,
    "S18": looks,
    "S19": looks_among_many,
}
BY_DEFAULT = [row for row in ROWS if row != "S5-long"]
SLOW = ("S8", "S11", "S13", "S14", "S15")
"""Rows whose rounds are those of ``Bench.slow_rounds``."""
