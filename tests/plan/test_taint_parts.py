"""What a template carries on, what of an address says where it leads, what of a command runs, what a schema bounds."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from rows import rows

from planrunner.capabilities.contract import Doc, capability
from planrunner.capabilities.signature import describe
from planrunner.plan.expressions.parse import parse
from planrunner.plan.taint.flow import carried, expressed, searched
from planrunner.plan.taint.positions import asks, host_of, in_arguments, in_authority, in_script
from planrunner.plan.taint.traits import is_closed, known, makes_rules, member, row

A, B = ("tasks", "a", "outputs", "x"), ("params", "b")

CARRIED = {
    "tasks.a.outputs.x": [A],
    "tasks['a'].outputs['x']": [A],
    "tasks.a.outputs.x | trim | upper": [A],
    "tasks.a.outputs.x.split(',')[0]": [A],
    "tasks.a.outputs.x | default(params.b)": [A, B],
    "tasks.a.outputs.x ~ params.b": [A, B],
    "tasks.a.outputs.x or params.b": [],
    "[x ~ params.b for x in tasks.a.outputs.x if x == env.C]": [A, B],
    "tasks.a.outputs.x[1:params.b]": [A],
    "params.b if tasks.a.outputs.x else 'no'": [B],
    "[tasks.a.outputs.x]": [A],
    "tasks.a.outputs.x[0].y": [(*A, "*", "y")],
    "tasks.a.outputs.x | length": [],
    "tasks.a.outputs.x | int": [],
    "tasks.a.outputs.x == 'y'": [],
    "tasks.a.outputs.x in ['y', 'z']": [],
    "not tasks.a.outputs.x": [],
    "'make' if tasks.a.outputs.x == 'go' else 'true'": [],
    "{'a': 'make', 'b': 'true'}[tasks.a.outputs.x]": [],
    "{'a': 'make'}.get(tasks.a.outputs.x, params.b)": [B],
    "tasks.a.outputs.x - 1": [],
}


@rows("body", CARRIED)
def test_a_template_carries_on_what_its_value_is_made_of(body: str) -> None:
    assert list(carried(f" {body} ")) == CARRIED[body]


def test_a_template_that_is_never_rendered_carries_nothing() -> None:
    assert A in carried("(" * 300 + "tasks.a.outputs.x" + ")" * 300)
    assert carried(" + ".join(["tasks.a.outputs.x"] * 3000)) == ()


@rows(
    ("text", "values", "sought"),
    [
        ("tasks.a.outputs.x", [A], []),
        ("split(tasks.a.outputs.x, ',')", [A], []),
        ("len(tasks.a.outputs.x)", [], []),
        ("contains(tasks.a.outputs.x, 'approved')", [], [A]),
        ("'approved' in tasks.a.outputs.x", [], [A]),
        ("tasks.a.outputs.x matches 'ok'", [], [A]),
        ("tasks.a.outputs.x == 'approved' and params.b", [], []),
        ("tasks.a.outputs.x in ['yes', 'no']", [], []),
        ("params.b and not contains(tasks.a.outputs.x, 'no')", [], [A]),
    ],
)
def test_an_expression_carries_on_values_and_looks_for_words(text: str, values: list[Any], sought: list[Any]) -> None:
    tree = parse(text).tree
    assert (list(expressed(tree)), list(searched(tree))) == (values, sought)


@rows(
    ("address", "inside"),
    [
        ("\0", [0]),
        ("https://\0/x", [0]),
        ("https://a.example/\0/\0", []),
        ("https://a.example?q=\0", []),
        ("https://a.example\0", [0]),
        ("https://a.example:\0/", [0]),
        ("https://user:\0@a.example/", [0]),
        ("https:/\0", [0]),
        ("https:\0/x", [0]),
        ("\0/\0", [0]),
        ("a.example/\0", []),
        ("\0\0/\0", [0, 1]),
    ],
)
def test_what_stands_before_the_end_of_the_host_says_where_an_address_leads(address: str, inside: list[int]) -> None:
    assert in_authority(address) == inside


@rows(
    ("address", "host"),
    [
        ("https://A.example:8443/x", ("a.example", 8443)),
        ("http://a.example", ("a.example", 80)),
        ("https://a.example@b.example/", ("b.example", 443)),
        ("https://b.example\\@a.example/", ("b.example", 443)),
        ("https://a.example./", ("a.example", 443)),
        ("http://[::1]:80/", ("::1", 80)),
        ("git@a.example:x/y", ("a.example", 22)),
        ("../x", ("", 0)),
        ("/srv/x", ("", 0)),
    ],
)
def test_the_host_of_an_address(address: str, host: tuple[str, int]) -> None:
    assert host_of(address) == host


RUNS = [
    "{{ x }} now", '"{{ x }}"', "a && {{ x }}", "if true; then {{ x }}; fi", "$({{ x }})", "sudo -u root {{ x }}",
    "env A=1 {{ x }}", "timeout 5s {{ x }}", "xargs -n 1 {{ x }}", "find . -exec {{ x }} \\;", "python3 {{ x }}",
    "ssh host {{ x }}", "echo {{ x }} | sh", "echo {{ x }} | sudo bash -s", "sh <<END\n{{ x }}\nEND", "$X", "${X} now",
    'eval "$X"', 'sh -c "$X"', "sh -c '$X'", "perl -e '{{ x }}'", "bash -lc '{{ x }}'", ". {{ x }}", 'node -e "$X"',
    'Y="$X"; sh -c "$Y"', 'Y=$(printf %s "$X"); $Y', 'export Y=$X; Z="a $Y"; eval "$Z"', "for y in $X; do $y; done", 'sh -c "ls $X"',
    'sh -c "$(printf %s {{ x }})"', "eval `echo $X`", 'sh <(echo "$X")', 'echo "$X" | while read -r y; do $y; done',
    'printf %s "$X" | xargs env', "echo $X | xargs -I{} sh -c 'ls {}'", "echo $X | xargs sh -c", 'echo "$X" | ssh host bash -s',
    'echo "$X" | env A=1 python3 -', 'chrt -o 0 sh -c "$X"', 'script -qc "$X" /dev/null', "setarch x86_64 $X", "prlimit --nofile=9 $X",
    "runuser -u nobody -- $X", 'runuser nobody -c "$X"', "strace -f $X", "dbus-run-session -- $X", 'flock f sh -c "$X"',
    "taskset 0x1 $X", "PATH=$X make", 'export LD_PRELOAD="$X"', "Y=$X; GIT_SSH_COMMAND=$Y git fetch",
]  # fmt: skip
DATA = [
    "echo {{ x }}", "git commit -m '{{ x }}'", "make {{ x }}", "env A={{ x }} make", 'sh -c \'echo "$1"\' sh "{{ x }}"',
    "sh -c 'echo \"$X\"'", "A={{ x }} make", "printf %s {{ x }} > file", "python3 tool.py {{ x }}", "case {{ x }} in a) ls;; esac",
    "for i in {{ x }}; do echo $i; done", "jq .a <<END\n{{ x }}\nEND", "echo {{ x }} | shasum", "test {{ x }} = y", "echo $X",
    "# {{ x }}\nmake", 'Y="$X"; echo "$Y"', 'Y=$(echo "$X"); git log -- "$Y"', "sh -c 'ls \"$1\"' sh $(echo $X)",
    "echo $X | xargs", "echo $X | xargs grep a", "echo $X | xargs -I{} cp {} to", "echo $X | xargs sh -c 'ls \"$@\"' sh",
    "echo $X | python3 tool.py", "echo $X | bash --version", "echo $X | ssh host cat", "strace -o $X make", "taskset 1 make $X",
    "GIT_AUTHOR_NAME=$X git commit", "Y=$X; Z=ls; $Z", "PATH=/bin:$HOME make {{ x }}",
]  # fmt: skip


@rows("script", RUNS)
def test_what_runs_in_a_script(script: str) -> None:
    assert "command" in {position.use for position in in_script(script, ["X"]) if position.template}


@rows("script", DATA)
def test_what_is_data_in_a_script(script: str) -> None:
    assert {position.use for position in in_script(script, ["X"]) if position.template} <= {"option"}


@rows(
    ("words", "uses"),
    [
        (["{{ x }}"], {"command"}),
        (["sh", "-c", "{{ x }}"], {"command"}),
        (["git", "show", "{{ x }}"], {"option"}),
        (["git", "show", "--", "{{ x }}"], set()),
        (["git", "show", "--grep={{ x }}"], set()),
        (["curl", "{{ x }}"], {"url", "option"}),
        (["curl", "-d", "{{ x }}", "https://a.example/"], {"option"}),
        (["curl", "https://a.example/{{ x }}"], set()),
        (["planrunner", "approve", "{{ x }}"], {"approval", "option"}),
        (["python", "-m", "planrunner", "exec", "{{ x }}"], {"plan"}),
    ],
)
def test_what_becomes_of_the_arguments_of_a_program(words: list[str], uses: set[str]) -> None:
    assert {position.use for position in in_arguments(words) if position.template} == uses


@pytest.mark.parametrize("script", ["find -exec " * 12_000, "env " * 30_000, "sh -c " * 20_000, "`" * 120_000])
def test_commands_that_start_others_without_end_are_read_to_theirs(script: str) -> None:
    assert "command" in {position.use for position in in_script(f"{script}{{{{ x }}}}; sh -c {{{{ x }}}}")}
    assert isinstance(asks(f"{script} curl"), bool)


def test_each_command_that_find_starts_is_told() -> None:
    script = "find . -exec find {} -exec sh -c {{ x }} \\; \\; -ok echo {{ y }} \\; -execdir {{ z }} \\;"
    found = in_script(script)
    assert [position.template for position in found if position.use == "command"] == ["{{ x }}", "{{ z }}"]


def test_a_file_that_is_run_is_told() -> None:
    assert [position.file for position in in_script("sh ./a.sh x && python b.py && ./c") if position.file] == [
        "./a.sh", "b.py", "./c",
    ]  # fmt: skip


@rows(
    ("script", "file"),
    [
        ("cat a.sh | sh", "a.sh"),
        ("cd sd && sh a.sh", "sd/a.sh"),
        ("cd sd; cd in; ./a.sh", "sd/in/./a.sh"),
        ("(cd b && ls); cd sd && sh a.sh", "sd/a.sh"),
        ("Y=a.sh; sh $Y", "a.sh"),
        ('for f in sd/*; do sh "$f"; done', "sd/*"),
        ("D=sd; . $D/a.sh", "sd/a.sh"),
        ('sh -c "$(cat a.sh)"', "a.sh"),
        ("eval `cat a.sh`", "a.sh"),
        ("Y=$(cat a.sh); $Y", "a.sh"),
        ("source <(cat a.sh)", "a.sh"),
    ],
)
def test_a_file_that_a_script_leads_to_is_told(script: str, file: str) -> None:
    assert file in {position.file for position in in_script(script) if position.use == "command"}


def test_what_a_script_reads_as_data_is_no_file_that_runs() -> None:
    for script in ("cat a.sh | wc", "Y=$(cat a.sh); echo $Y", "cd sd && cat a.sh", "for f in sd/*; do wc $f; done"):
        assert not {position.file for position in in_script(script)} & {"a.sh", "sd/a.sh", "sd/*"}, script


@rows("shape", ["A{0}=$A{1};", "read a{0};", "cd a{0};./a;", "A{0}=$A;", "A{0}=$(echo $A{1});", "sh a{0};"])
def test_what_a_script_hands_on_is_followed_for_a_bounded_time(shape: str) -> None:
    script = "A=$({}); ".format("echo {{ x }};" * 2_000)
    script += "".join(shape.format(number, number - 1) for number in range(6_000))
    assert len(in_script(f"{script} echo {{{{ x }}}} | sh")) < 20_000


def test_a_command_that_asks_a_server_is_known() -> None:
    assert asks("set -e; curl -s https://a.example | jq .x") and asks("x=$(wget -qO- a)")
    assert not asks("echo curl") and not asks("make http")


CLOSED: list[Any] = [
    {"enum": ["a", 1]}, {"const": "a"}, {"type": "integer"}, {"type": ["boolean", "null"]},
    {"type": "array", "items": {"enum": ["a"]}}, {"anyOf": [{"type": "number"}, {"const": "x"}]},
    {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False},
]  # fmt: skip
OPEN: list[Any] = [
    {}, None, {"type": "string"}, {"type": ["integer", "string"]}, {"type": "array"}, {"anyOf": []},
    {"type": "object", "properties": {"a": {"enum": ["a"]}}}, {"type": "string", "maxLength": 9}, {"pattern": "^a$"},
]  # fmt: skip


@rows("schema", CLOSED)
def test_a_closed_choice(schema: Any) -> None:
    assert is_closed(schema)


@rows("schema", OPEN)
def test_no_closed_choice(schema: Any) -> None:
    assert not is_closed(schema)


def test_the_member_of_a_schema() -> None:
    schema = {"properties": {"hosts": {"items": {"properties": {"name": {"enum": ["a"]}}}}}}
    assert member(schema, ("hosts", "*", "name")) == {"enum": ["a"]}
    assert member(schema, ("other",)) is None


def test_files_that_make_rules() -> None:
    for path in ("planrunner.yaml", "./planrunner.yaml", "sub/planrunner.yaml", ".git/config", "a/../.planrunner/x"):
        assert makes_rules(path), path
    for path in ("plans/planrunner.md", "git/x", ".gitignore"):
        assert not makes_rules(path), path


def test_a_declaration_that_nobody_could_follow_is_refused() -> None:
    def go(order: Annotated[str, Doc("what runs", use="comand")]) -> dict[str, str]:
        """Go."""
        return {"order": order}

    def read(path: str) -> dict[str, str]:
        """Read."""
        return {"text": path}

    with pytest.raises(TypeError, match="the use 'comand' of `order` is not one of command, "):
        describe(capability("x.go")(go))
    with pytest.raises(TypeError, match="name the input `schema`, which it has not"):
        describe(capability("x.read", shaped={"text": "schema"})(read))
    found = row(describe(capability("x.read", foreign=("text",), writes=("path",))(read)))
    assert found == {"foreign": ["text"], "writes": ["path"]}
    assert known(found).foreign == ("text",)


PYTHON = {
    'print(open("d/a.csv").read())': set(),
    'import csv, json, re\nre.compile("x")\nprint(json.dumps(list(csv.reader(open("d/a.csv")))))': set(),
    'json.load(open("d/a.csv"))': set(),
    'exec(open("d/a.py").read())': {"d/a.py"},
    'exec(compile(open("d/a.py").read(), "a", "exec"))': {"d/a.py"},
    'pickle.load(open("d/a.pkl"))': {"d/a.pkl"},
    'database.executescript(open("d/a.sql").read())': {"d/a.sql"},
}
NODE = {
    'console.log(require("fs").readFileSync("d/a.csv"))': set(),
    'eval(require("fs").readFileSync("d/a.js"))': {"d/a.js"},
    'require("./d/a.js")': {"./d/a.js"},
    'import("./d/a.mjs")': {"./d/a.mjs"},
}


@rows(
    ("shell", "option", "code", "files"),
    [
        *(("python3", "-c", code, files) for code, files in PYTHON.items()),
        *(("node", "-e", code, files) for code, files in NODE.items()),
        ("ruby", "-e", 'puts(open("d/a.csv"))', {"d/a.csv"}),
    ],
)
def test_a_file_that_code_only_reads_does_not_run(shell: str, option: str, code: str, files: set[str]) -> None:
    assert files == {each.file for each in in_script(code, (), shell) if "/" in each.file}
    assert files == {each.file for each in in_script(f"{shell} {option} '{code}'") if "/" in each.file}
    assert files == {each.file for each in in_script(code, (), f"env {shell} -u") if "/" in each.file}
