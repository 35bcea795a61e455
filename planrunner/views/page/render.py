"""Templates filled in to whole pages. Whatever a template shows is escaped; a name it asks for in vain is a bug."""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from planrunner.escapes import harmless
from planrunner.views.page import figures, signs

Json = Any

_HARMFUL = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class Frame(NamedTuple):
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


def rendered(template: str, frame: Frame, **values: object) -> str:
    """A whole page: a template of the folder ``templates``, filled in with ``values``. Whatever UTF-8 cannot carry,
    such as the odd bytes of a file name, becomes a question mark."""
    text = _environment().get_template(template).render(frame=frame, **values)
    return text.encode("utf-8", "replace").decode()


def part(template: str, name: str, page: object) -> str:
    """A part of a page: the macro of a template, called with ``page``."""
    macro = getattr(_environment().get_template(template).module, name)
    return str(macro(page)).encode("utf-8", "replace").decode()


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
    made.globals |= {"run_sign": signs.run_sign, "task_sign": signs.task_sign}
    return made
