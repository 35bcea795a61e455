"""The credentials of a project as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from planrunner.views.table import table
from planrunner.views.terminal import harmless

if TYPE_CHECKING:
    from planrunner.views.terminal import Terminal


class Credited(Protocol):
    """See ``app/credentials.py``."""

    @property
    def id(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def variable(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def there(self) -> bool | None: ...
    @property
    def problem(self) -> str: ...
    @property
    def warning(self) -> str: ...


_SIGNS = {True: "completed", False: "failed"}


def rows(terminal: Terminal, found: Sequence[Credited]) -> Iterator[str]:
    """A line for each credential: where it comes from, or, once it was looked up, whether it is there."""
    if not found:
        yield "no credentials: `provider_credentials` of planrunner.yaml lists them"
    elif found[0].there is None:
        cells = [[harmless(cell) for cell in (each.id, each.variable, each.source, each.place)] for each in found]
        yield from table(terminal, ("credential", "variable", "comes from", "listed in"), cells)
    else:
        for each in found:
            said = f": {each.problem}" if each.problem else f", from {each.source}"
            yield f"{terminal.sign(_SIGNS[bool(each.there)])} {harmless(each.id + said)}"
            if each.warning:
                yield f"  {harmless(each.warning)}"
