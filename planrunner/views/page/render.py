"""Templates filled in to whole pages, what surrounds each, and the links within it. Whatever a template shows is
escaped; a name it asks for in vain is a bug."""

from __future__ import annotations

import functools
import json
import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from planrunner.escapes import TURNING, harmless, numbered
from planrunner.records import Struct
from planrunner.views.page import figures, signs

Json = Any

_HARMFUL = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class Frame(Struct):
    """What surrounds a page.

    ``base`` is the address of the project without a slash at its end (``/shopfront``), ``here`` the entry of the
    navigation that is current. In ``static`` lie style, script and icon; ``scripts`` are loaded beside ``page.js``.
    ``waiting`` is the number of gates that wait, ``who`` the person who looks.
    """

    project: str = ""
    base: str = ""
    here: str = ""
    static: str = "/static"
    home: str = "/"
    who: str = ""
    roles: tuple[str, ...] = ()
    waiting: int = 0
    scripts: tuple[str, ...] = ()
    token: str = ""
    """What a form sends as ``form`` to prove that this page made it."""
    session: bool = False
    """Whether the person has signed in with a token, and so may sign out."""
    may_run: bool = True
    """Whether the person may start runs: nothing is offered that would be refused."""
    alone: bool = False
    """The page is a file of its own: style and scripts stand in it, and nothing leads to a service."""


class Tab(Struct):
    """A way to see a part of what there is, with how much that is where it is counted. ``query`` is that of its
    address, ``current`` says that it is what is shown; ``state`` is the colour of its icon."""

    word: str
    query: str
    current: bool
    number: int | None = None
    icon: str = ""
    state: str = ""


def query_of(**values: str | int | None) -> str:
    """The query of an address, without what is empty; empty where nothing is asked for."""
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""


def rendered(template: str, frame: Frame, **values: object) -> str:
    """A whole page: a template of the folder ``templates``, filled in with ``values``. Whatever UTF-8 cannot carry,
    such as the odd bytes of a file name, becomes a question mark."""
    return _plain(_environment().get_template(template).render(frame=frame, **values))


def part(template: str, name: str, page: object) -> str:
    """A part of a page: the macro of a template, called with ``page``."""
    macro = getattr(_environment().get_template(template).module, name)
    return _plain(str(macro(page)))


_TURNS = re.compile(
    r"<textarea\b.*?</textarea>|<script\b.*?</script>|\bvalue=\"[^\"]*\"|([\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])",
    re.S,
)
"""Marks that turn the direction of writing, and what is sent back or read by a script as it is."""


def _plain(text: str) -> str:
    """A page in UTF-8 that reads in the direction in which it is written, also with marks in its titles."""
    if not text.isascii() and any(mark in text for mark in TURNING):
        text = _TURNS.sub(lambda match: numbered(match[1]) if match[1] else match[0], text)
    return text.encode("utf-8", "replace").decode()


def standalone(template: str, frame: Frame, **values: object) -> str:
    """The same page as a file that needs nothing beside it and may load nothing: its own policy admits only the style
    and the scripts that stand in it, by their digests."""
    return rendered(template, frame._replace(alone=True), **values)


def _asset(name: str) -> Markup:
    """A file of the folder ``static`` to stand in a page. It is ours, and nothing in it ends its element."""
    return Markup(_static(name))  # noqa: S704


@functools.cache
def _static(name: str) -> str:
    text = files("planrunner.views.page").joinpath("static", name).read_text(encoding="utf-8")
    return text.replace("</", "<\\/") if name.endswith(".js") else text


def _policy(frame: Frame) -> str:
    """The content security policy of a page that is a file."""
    scripts = " ".join(_source(_static(name)) for name in ("page.js", *frame.scripts))
    style = _source(_static("page.css"))
    own = f"style-src {style}; script-src {scripts}"
    return f"default-src 'none'; img-src data:; {own}; base-uri 'none'; form-action 'none'"


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _icon() -> str:
    return f"data:image/svg+xml;base64,{b64encode(_static('icon.svg').encode()).decode()}"


def embedded(data: Json) -> Markup:
    """JSON that may stand in a ``script`` element: nothing in it can end the element."""
    return Markup(json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_HARMFUL))  # noqa: S704


def ticked(text: str) -> Markup:
    """A sentence in which what stands between backticks is code."""
    parts = [escape(part) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("planrunner.views.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "embedded": embedded,
        "duration": figures.duration,
        "ago": figures.ago,
        "moment": figures.moment,
        "stamp": figures.stamp,
        "counted": figures.count,
        "harmless": harmless,
        "clock": figures.clock,
        "clipped": figures.clipped,
        "short_digest": figures.digest,
        "anchor": figures.anchor_of,
        "ticked": ticked,
    }
    made.globals |= {"asset": _asset, "policy": _policy, "icon_data": _icon}
    made.globals |= {"run_sign": signs.run_sign, "task_sign": signs.task_sign}
    return made
