"""Words that have broken readers before: what mutations put where a plan had something ordinary."""

from __future__ import annotations

from functools import cache
from random import Random

BYTES = (
    *(
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\xff\xfe\0\0",
        b"\0",
        b"\x1b",
        b"\x07",
        b"\x7f",
        b"\x85",
        b"\xc0\x80",
    ),
    *(b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xe2\x81\xa6"),
    *(
        b"\xe2\x80\x8b",
        b"\xcc\x88",
        b"\r",
        b"\r\n",
        b"\n\r",
        b"\t",
        b"\x0b",
        b"\x0c",
        b"\x1c",
        b"\xc2\xa0",
        b"\xc2\xad",
    ),
    *(
        b"\xef\xbf\xbe",
        b"\xf3\xa0\x81\x81",
        b"\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9",
        b"\xd9\xa1",
        b"\xef\xbc\x81",
    ),
)
"""Bytes that are no UTF-8, marks of encodings, controls, bidirectional controls, marks without width."""

MARKS = (
    *(
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        ",",
        "-",
        "- ",
        "? ",
        "&a ",
        "*a",
        "*a ",
        "!",
        "!!str ",
        "!!python/object:os.system ",
    ),
    *(
        "<<: *a",
        "<<: [*a, *a]",
        "| \n",
        ">-\n",
        "|9\n",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "#",
        "'",
        '"',
        "`",
        "@",
        "\\",
        "~",
    ),
    *(
        "{{",
        "}}",
        "{{ ",
        " }}",
        "{%",
        "%}",
        "{#",
        "#}",
        "->",
        "=>",
        "==",
        "!=",
        "<=",
        "&&",
        "||",
        "|",
        "..",
        "...",
        "//",
    ),
    *(
        "on success",
        "on failure ->",
        "task a",
        "plan p",
        "  ",
        "\n",
        "\n\n",
        "\n  ",
        "\n    - ",
        "=",
        "$(",
        "${",
        "$((",
        "<<EOF",
    ),
)
"""What has a meaning in one of the notations, in expressions, in templates or in shells."""

NUMBERS = (
    *("0", "-0", "-1", "1e400", "-1e400", "1e-400", ".inf", "-.inf", ".nan", "NaN", "Infinity", "0x7fffffffffffffff"),
    *("0o777", "0b1", "1_000", "1:30:00", "18446744073709551616", "9" * 400, "9" * 5000, "0." + "0" * 400 + "1"),
    *(
        "1e9999999999",
        "٣",
        "1 000",
        "1,5",
        "--1",
        "+1",
        "1%",
        "100000000%",
        "99999999999999999999d",
        "1e308h",
        "-5m",
        "0s",
    ),
    *("1h1h1h", "$99999999999999999999", "-$1", "1e400 tokens", "1k", "1KiB", "999999999999999999999TB", "2026-02-30"),
    *("0000-00-00T00:00:00Z", "99999-12-31", "2026-12-31T23:59:60+99:99", "true", "yes", "null", "~", "", " "),
)

EXPRESSIONS = (
    *(
        "a.output.x > 1",
        "not not not a",
        "(((((((((1)))))))))",
        "1 +",
        "a..b",
        "a[",
        "a[0][0][0]",
        "'",
        "tasks.a.status = ok",
    ),
    *(
        "x in [1, 2, x in [3]]",
        "matches(a, '(a+)+$')",
        "a matches '(x*)*y'",
        "len(len(len(1)))",
        "1/0",
        "0 % 0",
        "2 ** 99999",
    ),
    *(
        "9999999999 * 9999999999 * 9999999999",
        "'a' * 9999999999",
        "[1] * 9999999",
        "a ? b : c",
        "a if b else c",
        "a and or b",
    ),
    *(
        "__import__('os').system('id')",
        "a.__class__.__mro__",
        "env.HOME",
        "env[params.x]",
        "secrets.x",
        "params.x.y.z",
        "now()",
    ),
    *(
        "any(a, b)",
        "all tests pass",
        "exit_code = 0",
        "files exist: */**/*",
        "visits > 3",
        "item.x",
        "loop.index < 1e400",
    ),
    *(
        "contains(a, b, c, d)",
        "a < b < c < d",
        "- - - - 1",
        "!a",
        "a &",
        "1 = '1'",
        "null = null",
        "x = \ufeff",
        "\u202ex",
    ),
)

TEMPLATES = (
    *(
        "{{ params.x }}",
        "{{ a.output }}",
        "{{ {{ a }} }}",
        "{{ a | upper | lower | length }}",
        "{{ range(999999999) }}",
    ),
    *(
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ lipsum(100000) }}",
        "{% for a in b %}{% endfor %}",
        "{{ a",
        "}}",
    ),
    *(
        "{{ 'x' * 99999999 }}",
        "{{ [1]*9999999 }}",
        "{{ cycler.__init__.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{{}}",
    ),
    *(
        "{{ a.b.c.d.e.f.g }}",
        "{{ a['b'][0] }}",
        "{{ env.PATH }}",
        "{% raw %}{{ a }}{% endraw %}",
        "{{ 9**9**9 }}",
        "{# x",
    ),
    *(
        "{{ '%s' % a }}",
        "{{ a | map('x') | join }}",
        "{{ a ~ b ~ c }}",
        "{{ self }}",
        "{{ 1 / 0 }}",
        "{{ a() }}",
        "{{- a -}}",
    ),
    *(
        "{% set x = x %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ a | tojson | safe }}",
        "{{ '\\ud800' }}",
    ),
)

PATHS = (
    *(
        "/etc/passwd",
        "../../../../etc/passwd",
        "/dev/zero",
        "/dev/stdin",
        "/proc/self/environ",
        ".",
        "..",
        "/",
        "",
        "~root/x",
    ),
    *(
        "a\0b",
        "C:\\x",
        "//host/x",
        "x.yaml",
        "./x.plan",
        "x" * 5000 + ".yaml",
        "file:///etc/passwd",
        "http://[::1]:99999/x",
    ),
    *(
        "http://169.254.169.254/",
        "http://2130706433/",
        "http://user:pw@h/",
        "ext::sh -c id",
        "--upload-pack=id",
        "-oProxy=x",
    ),
)

NAMES = (
    *(
        "a",
        "A",
        "-a",
        "a b",
        "a.b",
        "a/b",
        "a*",
        "*",
        "__proto__",
        "constructor",
        "con",
        "ä",
        "a\u0308",
        "\u0430",
        "a" * 300,
    ),
    *(
        "tasks",
        "start",
        "end",
        "self",
        "this",
        "true",
        "null",
        "1",
        "1e1",
        "finally",
        "item",
        "loop",
        "env",
        "params",
        "{{ a }}",
    ),
)


@cache
def every_word() -> tuple[str, ...]:
    return (*MARKS, *NUMBERS, *EXPRESSIONS, *TEMPLATES, *PATHS, *NAMES)


def word(random: Random) -> str:
    """A hostile word, some of them joined, repeated or nested."""
    chosen = random.choice(every_word())
    way = random.randrange(12)
    if way == 0:
        return chosen * random.choice((2, 9, 70, 700))
    if way == 1:
        return random.choice(TEMPLATES) + chosen
    if way == 2:
        return nested(random, chosen)
    if way == 3:
        return chosen + random.choice(BYTES).decode("utf-8", "ignore") + chosen
    return chosen


def nested(random: Random, inner: str) -> str:
    """A word between many brackets of one kind, some of them left open."""
    opening, closing = random.choice(
        (("(", ")"), ("[", "]"), ("{", "}"), ("{{ ", " }}"), ("not ", ""), ("- ", ""), ("{a: ", "}"))
    )
    depth = random.choice((3, 30, 66, 300, 3000))
    return opening * depth + inner + closing * random.choice((depth, depth - 1, 0))
