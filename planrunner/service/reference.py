"""The reference page of the API, made from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planrunner.service.app import make_app

Json = Any

HEAD = """# The HTTP API

{made}What `planrunner serve` answers, from its OpenAPI document. The document itself, for clients and generators, is at
`/api/v1/openapi.json` of a service. [Serve projects](../how-to/serve.md) says how to start one and who may do what.

`{{project}}` is the name of a project of the service, `{{run}}` an id, the start of one, or `last`. Addresses without a
beginning stand below `/api/v1/projects/{{project}}`. The scope is the one that a token needs. Bodies are JSON; a key
that is not listed is an error. Documents are those that `--json` prints on the command line; fields are added to them,
never changed or removed.

A request that fails gets a problem document (RFC 9457): `status`, `detail`, mostly `hint`, and for plans `findings`.
Paths of plans are those below the project. Names in addresses are percent-encoded: `polish%232` for `polish#2`.
"""

_METHODS = ("get", "post", "put", "delete")


def page(made: str) -> str:
    """The page; ``made`` is the note that it is made by a program."""
    document = make_app([]).openapi()
    parts = [HEAD.format(made=made)]
    for tag, rows in _by_tag(document).items():
        parts.append(f"\n## {tag[:1].upper()}{tag[1:]}\n\n| address | scope | |\n|---|---|---|\n")
        parts += rows
    parts.append("\n## Bodies\n")
    parts += _bodies(document)
    return "".join(parts)


def _by_tag(document: Json) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if operation := operations.get(method):
                found.setdefault(operation["tags"][0], []).append(_row(path, method, operation))
    return found


def _row(path: str, method: str, operation: Json) -> str:
    place = path.removeprefix("/api/v1/projects/{project}").replace(":path}", "}")
    shown = place if place != path else path
    queries = [each["name"] for each in operation.get("parameters", ()) if each["in"] in ("query", "header")]
    said = " ".join(operation.get("description", "").split()).replace("|", "\\|")
    more = f" ({', '.join(f'`{name}`' for name in queries)})" if queries else ""
    body = _body_of(operation)
    given = f" Body: [{body}](#{body.lower()})." if body else ""
    return f"| `{method.upper()} {shown}` | {operation.get('x-scope') or 'none'} | {said}{given}{more} |\n"


def _body_of(operation: Json) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]


def _bodies(document: Json) -> Iterator[str]:
    """Each body that an address takes, with its keys."""
    operations = (each for path in document["paths"].values() for each in path.values())
    wanted = sorted({name for operation in operations if (name := _body_of(operation))})
    for name in wanted:
        schema = document["components"]["schemas"][name]
        said = " ".join(schema.get("description", "").replace("``", "`").split())
        yield f"\n### {name}\n\n{said}\n\n| key | value |\n|---|---|\n"
        for key, about in schema["properties"].items():
            yield f"| `{key}`{'' if key in schema.get('required', ()) else ' (optional)'} | {_kind(about)} |\n"


def _kind(about: Json) -> str:
    if "anyOf" in about:
        return " or ".join(dict.fromkeys(map(_kind, about["anyOf"])))
    if "enum" in about:
        return ", ".join(f"`{each}`" for each in about["enum"])
    kind = str(about.get("type") or str(about.get("$ref", "any JSON")).rpartition("/")[2])
    return f"list of {_kind(about['items'])}" if kind == "array" and "items" in about else kind
