"""Columns of text, aligned by the width they take on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from planrunner.views.terminal import Terminal, cut, pad, width


def table(terminal: Terminal, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the last column is cut at the edge of a terminal, and never in a pipe."""
    widths = [max(width(row[at]) for row in (header, *rows)) for at in range(len(header))]
    lines = [terminal.paint(_line(header, widths), "dim")]
    columns = terminal.size()[0]
    for row in rows:
        line = _line(row, widths)
        lines.append(cut(line, columns, terminal.unicode) if terminal.live else line)
    return lines


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(pad(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip()
