"""The house: floors, purity, circles, names and sizes, read from the source with ``ast``."""

from __future__ import annotations

import ast
import functools
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rows import rows
from workbench import ROOT

PACKAGE = ROOT / "planrunner"

FLOORS: dict[str, int] = {
    "": 0, "ancestry": 0, "caller": 0, "source": 0, "diagnostics": 0, "errors": 0, "extras": 0, "fileio": 0, "frozen": 0, "escapes": 0, "failures": 0, "jsontext": 0, "later": 0, "process": 0, "records": 0, "statuses": 0, "redaction": 0,
    "files": 1, "syntax": 1,
    "plan": 2,
    "machine": 3,
    "journal": 4, "capabilities": 4, "knowledge": 3, "safety": 4, "views": 4,
    "engine": 5, "hookspecs": 5, "plugins": 5, "api": 5,
    "app": 6, "embed": 6,
    "service": 7, "shell": 7, "mcpserver": 7, "cli": 7, "testing": 7, "__main__": 8,
}  # fmt: skip

# Rooms of these floors do not see each other; on the others a neighbour may be read, as long as no circle arises.
SIDE_BY_SIDE = {4, 7}
OPENED_BY_COMMANDS = {"service", "shell", "mcpserver"}
"""Doors that a command opens; they know nothing of the command line."""

MACHINE_MAY_IMPORT = {
    "__future__", "abc", "bisect", "collections", "copy", "enum", "functools", "hashlib", "heapq", "itertools", "math",
    "operator", "re", "typing",
}  # fmt: skip
MACHINE_MAY_NOT_IMPORT = {
    "asyncio", "datetime", "logging", "os", "pathlib", "random", "sqlite3", "subprocess", "threading", "time", "uuid",
}  # fmt: skip

FORBIDDEN_MODULE_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers", "base"}
MODE_FLAGS = {"dry_run", "is_replaying", "is_resuming"}


class Import(NamedTuple):
    importer: str
    target: str
    line: int


class Function(NamedTuple):
    place: str
    name: str
    lines: int


def _name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _modules() -> dict[str, ast.Module]:
    paths = sorted(path for path in PACKAGE.rglob("*.py") if "_data" not in path.parts)
    return {_name_of(path): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in paths}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _targets(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """What a statement imports; ``from package import name`` means the module ``package.name`` if it is one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    start = node.module or ""
    if node.level:
        package = module.split(".") if _is_package(module) else module.split(".")[:-1]
        start = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
    for alias in node.names:
        inner = f"{start}.{alias.name}"
        yield inner if inner in _modules() else start


def _is_package(module: str) -> bool:
    return (ROOT / Path(*module.split(".")) / "__init__.py").is_file()


@functools.cache
def _imports() -> tuple[Import, ...]:
    """Every import statement wherever it stands: at the top, inside functions and under TYPE_CHECKING."""
    return tuple(
        Import(module, target, node.lineno)
        for module, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for target in _targets(module, node)
    )


def _inside() -> Iterator[Import]:
    return (item for item in _imports() if item.target.split(".")[0] == "planrunner")


def _say(items: Iterable[Import]) -> str:
    return "\n".join(f"{item.importer}:{item.line} imports {item.target}" for item in items)


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement to the last; the docstring does not count."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


@functools.cache
def _functions() -> tuple[Function, ...]:
    return tuple(
        Function(f"{module}:{node.lineno}", node.name, _body_lines(node))
        for module, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_every_room_has_a_floor() -> None:
    assert {_room(module) for module in _modules()} <= FLOORS.keys()


def test_imports_point_to_lower_floors_or_stay_in_their_room() -> None:
    upwards = [item for item in _inside() if FLOORS[_room(item.target)] > FLOORS[_room(item.importer)]]
    assert not upwards, _say(upwards)


def test_rooms_side_by_side_do_not_see_each_other() -> None:
    across = [
        item
        for item in _inside()
        if _room(item.importer) != _room(item.target)
        and FLOORS[_room(item.importer)] == FLOORS[_room(item.target)]
        and FLOORS[_room(item.importer)] in SIDE_BY_SIDE
        and (_room(item.importer) != "cli" or _room(item.target) not in OPENED_BY_COMMANDS)
    ]
    assert not across, _say(across)


def test_what_the_journal_is_stored_in_is_named_inside_the_journal_only() -> None:
    outside = [
        item
        for item in _inside()
        if item.target in JOURNAL_INSIDE and _room(item.importer) != "journal" and item.importer != OCCUPANCY
    ]
    assert not outside, _say(outside)


JOURNAL_INSIDE = {f"planrunner.journal.{name}" for name in ("database", "leases", "sqlite")}
OCCUPANCY = "planrunner.app.runs.occupancy"
"""Has the lease of a working directory into which files are put back."""


def test_the_machine_imports_no_clock_no_io_no_chance_and_no_dependency() -> None:
    outside = [
        item
        for item in _imports()
        if _room(item.importer) == "machine"
        and item.target.split(".")[0] not in MACHINE_MAY_IMPORT
        and item.target.split(".")[0] != "planrunner"
    ]
    assert not outside, _say(outside)
    assert not MACHINE_MAY_IMPORT & MACHINE_MAY_NOT_IMPORT


def test_the_machine_reads_no_world_through_builtins() -> None:
    calls = [
        f"{module}:{node.lineno} calls {node.func.id}"
        for module, tree in _modules().items()
        if _room(module) == "machine"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"open", "input", "print", "__import__", "eval", "exec"}
    ]
    assert not calls, "\n".join(calls)


def test_no_modules_import_each_other_in_a_circle_even_for_types_only() -> None:
    graph: dict[str, set[str]] = {module: set() for module in _modules()}
    for item in _inside():
        if item.target in graph and item.target != item.importer:
            graph[item.importer].add(item.target)
    knots = [sorted(knot) for knot in _knots(graph)]
    assert not knots, f"circles: {knots}"


def _knots(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected sets of more than one module."""
    reach = {module: _reachable(graph, module) for module in graph}
    knots: list[set[str]] = []
    for module in graph:
        knot = {other for other in reach[module] if module in reach[other]} | {module}
        if len(knot) > 1 and knot not in knots:
            knots.append(knot)
    return knots


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for target in graph[todo.pop()] - seen:
            seen.add(target)
            todo.append(target)
    return seen


def test_the_circle_finder_finds_a_circle() -> None:
    assert _knots({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [module for module in _modules() if set(module.lower().split(".")) & FORBIDDEN_MODULE_NAMES]
    assert not vague


def test_modes_are_another_outside_and_never_a_flag() -> None:
    flags = [
        f"{module}:{argument.lineno} takes {argument.arg}"
        for module, tree in _modules().items()
        if FLOORS[_room(module)] < FLOORS["app"]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if argument.arg in MODE_FLAGS
    ]
    assert not flags, "\n".join(flags)


KNOW_THE_PROCESS = {"planrunner.caller", "planrunner.cli.guard", "planrunner.engine.processes"}
"""Modules that may ask for the working directory: what stands for the caller, a door, and what a child would inherit."""


def test_only_the_caller_says_who_asks_and_from_where() -> None:
    asking = re.compile(r"""os\.getcwd|Path\.cwd|getpass|environ\S*["'](USER|LOGNAME)["']""")
    found = [
        f"{module}: {match.group()}"
        for module in _modules()
        if module not in KNOW_THE_PROCESS and _room(module) != "testing" and not _is_package(module)
        for match in asking.finditer((ROOT / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8"))
    ]
    assert found == ["planrunner.plan.python.rules: getpass"], found  # what code in a plan may not call


def test_functions_stay_short() -> None:
    long = [function for function in _functions() if function.lines > 60]
    assert not long, long
    sizes = [function.lines for function in _functions()]
    over = [function for function in _functions() if function.lines > 40]
    assert len(over) <= 0.03 * len(sizes), over
    assert statistics.median(sizes) < 8


def test_classes_stay_small() -> None:
    large = [
        f"{module}:{node.lineno} {node.name}"
        for module, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno + 1 > 250
    ]
    assert not large


def test_constructors_take_at_most_six_arguments() -> None:
    wide = [
        f"{module}:{node.lineno}"
        for module, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name == "__init__"
        and len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) - 1 > 6
    ]
    assert not wide


LONGEST_MODULE = 800
"""Lines; most hold one idea in 100 to 500."""


def test_modules_hold_one_idea() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in PACKAGE.rglob("*.py")
        if (lines := path.read_text(encoding="utf-8").count("\n")) > LONGEST_MODULE
    }
    assert not long


BORDERS = 60
"""Imports inside functions, each at the border of a room: what a run of a small plan does not use is loaded when it is
used. Everything else is imported at the top."""


def test_imports_stand_at_the_top() -> None:
    late = {
        f"{module}:{inner.lineno}"
        for module, tree in _modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    assert len(late) <= BORDERS, sorted(late)


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        module
        for module, tree in _modules().items()
        if ast.get_docstring(tree) is None and not (module.rpartition(".")[2].startswith("_") or not tree.body)
    ]
    assert not silent


def test_annotations_stay_text_everywhere() -> None:
    without = [
        module
        for module, tree in _modules().items()
        if len(tree.body) > 1  # a docstring alone has nothing to annotate
        and not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    ]
    assert not without


def test_doors_hand_documents_over_and_make_none() -> None:
    """What programs read has one form, whichever door gives it: see ``views/documents.py``."""
    made = [
        module
        for module, tree in _modules().items()
        if _room(module) in {"cli", "service", "shell", "mcpserver"}
        for node in ast.walk(tree)
        if (isinstance(node, ast.Constant) and node.value == "format" and module != "planrunner.cli.table")  # an option
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "document")
    ]
    assert not made


def test_only_the_command_line_prints() -> None:
    prints = [
        f"{module}:{node.lineno}"
        for module, tree in _modules().items()
        if _room(module) not in {"cli", "__main__"} and module not in PROGRAMS
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not prints


PROGRAMS = {"planrunner.capabilities.python.child"}
"""Modules that are programs of their own, which a capability starts."""


def test_every_import_is_the_standard_library_ours_or_a_declared_dependency() -> None:
    declared = {
        "click",
        "jsonschema",
        "jsonschema_rs",
        "ruamel",
        "_ruamel_yaml",
        "jinja2",
        "markupsafe",
        "dotenv",
        "pluggy",
        "lark",
        "msgspec",
    }
    strange = [
        item
        for item in _imports()
        if (root := item.target.split(".")[0]) not in sys.stdlib_module_names | declared | {"planrunner"}
        and root not in OWN_LIBRARIES.get(_family(item.importer), set())
    ]
    assert not strange, _say(strange)


OWN_LIBRARIES = {
    "testing": {"pytest"},  # the test kit for authors of plans and plugins
    "git": {"httpx2"},
    "http": {"httpx2", "httpcore2", "anyio"},
    "llm": {"httpx2", "pydantic_ai", "genai_prices"},
    "mcp": {"mcp", "httpx2", "anyio"},
    "safety": {"keyring"},
    "knowledge": {"numpy", "tld", "psycopg"},
    "journal": {"psycopg"},
    "research": {"httpx2", "protego", "trafilatura", "tld"},
    "sql": {"sqlalchemy"},
    "dask": {"distributed"},
    "service": {"fastapi", "starlette", "uvicorn", "h11", "pydantic", "prometheus_client"},
    "mcpserver": {"mcp", "anyio", "uvicorn"},
    "shell": {"prompt_toolkit"},
    "triggers": {"cronsim", "watchfiles"},
    "follow": {"opentelemetry"},
    "notices": {"apprise"},
}
"""Libraries that one room or one family of capabilities alone may import, and only when it is used."""


def _family(module: str) -> str:
    parts = module.split(".")
    return parts[2] if parts[1:2] in (["capabilities"], ["app"]) and len(parts) > 2 else _room(module)


def test_describing_capabilities_loads_no_library() -> None:
    program = (
        "import sys\n"
        "from planrunner.capabilities import builtin\n"
        "for name in builtin.TARGETS: builtin.description_of(name)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & set(sys.argv[1:])))\n"
    )
    heavy = sorted({*set().union(*OWN_LIBRARIES.values()), "pydantic", "openai", "ssl", "asyncio"})
    done = subprocess.run([sys.executable, "-c", program, *heavy], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def _project_files() -> Iterator[Path]:
    skipped = {"__pycache__", "node_modules", "build", "dist", "_data"}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in skipped and (not name.startswith(".") or name == ".ci")]
        for name in set(files) - {".git"}:
            if Path(name).suffix in {".py", ".md", ".yaml", ".yml", ".toml", ".json", ".lark", ".plan", ".svg", ""}:
                yield Path(folder, name)


# Written in pieces so that this file does not find itself.
_SPOILERS = [
    "/" + "work/", "/" + "root/", "/" + "home/[a-z]", "/tmp/" + "pv", "py" + "env", "py" + r"pi\.org",
    "python" + "hosted", "helper" + " session", "CON" + r"TRACT\.md", r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b",
    r"\bPhase" + r" \d",
]  # fmt: skip


@rows("spoiler", _SPOILERS)
def test_no_file_tells_of_a_machine_a_registry_or_how_the_work_was_shared_out(spoiler: str) -> None:
    pattern = re.compile(spoiler)
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _project_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found
