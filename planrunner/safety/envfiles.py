"""Environment files of a project, ``env_file`` in ``planrunner.yaml``: lines ``NAME=value`` that hold as if they were
set where planrunner was started. What is set there comes first."""

from __future__ import annotations

import os

from planrunner.errors import UsageError
from planrunner.plan.taint.traits import STEERING
from planrunner.safety.project import FILE, read_data

LARGEST = 1 << 20
_KEPT = frozenset({"HOME", "USER", "LOGNAME"})
_FAMILIES = ("PLANRUNNER_", "XDG_")


def env_variables(directory: str) -> dict[str, str]:
    """The variables of a project's environment files, a later file over an earlier one. Raises UsageError for a file
    that cannot be read, a line that sets nothing, and a variable that no file may set; PlanInvalid for settings with
    errors."""
    given = read_data(directory).get("env_file") or ()
    found: dict[str, str] = {}
    for name in (given,) if isinstance(given, str) else given:
        for number, line in enumerate(_text(directory, name).splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            variable, sign, value = line.strip().removeprefix("export ").partition("=")
            variable = variable.strip()
            if not sign or not variable.isidentifier() or not variable.isascii():
                raise UsageError(f"{name}, line {number}: expected NAME=value")
            if STEERING.fullmatch(variable) or variable in _KEPT or variable.startswith(_FAMILIES):
                message = (
                    f"{name}, line {number}: no environment file sets `{variable}`, by which programs are found or run"
                )
                raise UsageError(message, f"set it where planrunner is started: `export {variable}=…`")
            found[variable] = _value(value.strip())
    return found


def _value(text: str) -> str:
    """What stands between quotes as it is; else up to a comment behind a space."""
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        return text[1:-1]
    return text.partition(" #")[0].rstrip()


def _text(directory: str, name: str) -> str:
    root = os.path.realpath(directory)
    path = os.path.realpath(os.path.join(root, name))
    said = f"`env_file: {name}` of {FILE}"
    if not path.startswith(f"{root.rstrip('/')}/"):
        raise UsageError(f"{said} lies outside the project")
    try:
        if not os.path.isfile(path):
            raise UsageError(f"{said} is not a file: {path}", f"make it, or take `env_file` out of {FILE}")
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{said} cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise UsageError(f"{said} is larger than 1 MiB")
    try:
        return data.decode("utf-8-sig").replace("\0", "\\0")
    except UnicodeDecodeError:
        raise UsageError(f"{said} is not UTF-8 text") from None
