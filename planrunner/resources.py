"""Where ``grammar/`` and ``schemas/`` are found: inside an installed wheel, or beside the package in a checkout."""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def data_path(kind: str, name: str) -> str:
    """The path of a data file, for example ``data_path("schemas", "plan.schema.json")``.

    A wheel carries the files in ``planrunner/_data``; an editable install and a plain checkout have them at the top
    level of the repository. Raises FileNotFoundError where neither place has the file.
    """
    for root in (os.path.join(_PACKAGE, "_data"), os.path.dirname(_PACKAGE)):
        path = os.path.join(root, kind, name)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"{kind}/{name} is not part of this installation of planrunner")


def read_data(kind: str, name: str) -> str:
    """The text of a data file; raises FileNotFoundError like ``data_path``."""
    with open(data_path(kind, name), encoding="utf-8") as file:
        return file.read()
