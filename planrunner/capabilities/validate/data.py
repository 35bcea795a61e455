"""``validate.json_schema``: data of the plan, or files of JSON and YAML, held against a schema."""

from __future__ import annotations

import os
from typing import Annotated, Any

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.files.scope import require_let
from planrunner.capabilities.jsonschema import faults, require_schema
from planrunner.capabilities.validate.evidence import (
    Evidence,
    Finding,
    Pattern,
    evidence,
    finding,
    found_files,
    judged,
    names,
)
from planrunner.source import Source
from planrunner.syntax.notations import decode, parse
from planrunner.syntax.tree import Mapping, Node, Sequence, to_json

_LARGEST = 16 << 20


@capability("validate.json_schema", effect="read", foreign=("findings",), own=("tool", "version", "counts"))
def json_schema(
    context: Context,
    data: Annotated[Any, Doc("data of the plan, such as the outputs of a task")] = None,
    files: Annotated[Pattern | list[Pattern], Doc("files of JSON or YAML, or patterns such as config/*.yaml")] = "",
    schema: Annotated[dict[str, Any] | bool | None, Doc("the schema itself")] = None,
    schema_file: Annotated[str, Doc("the schema in a file of JSON or YAML", form="file-read")] = "",
    fail: Annotated[bool, Doc("fail with the class `findings` where something does not fit")] = True,
    max_findings: Annotated[int, Doc("the most findings to give; `counts` is of all")] = 200,
) -> Evidence:
    """Hold data against a JSON Schema (draft 2020-12, 7 or 6). Findings in files name line and column."""
    if (schema is None) == (not schema_file):
        raise Failure("give one of `schema` and `schema_file`")
    if isinstance(schema, str):
        raise Failure("`schema` is the schema itself; a file is named by `schema_file`")
    if not files and data is None and "data" not in context.call.inputs:
        raise Failure("nothing to validate: set `data` or `files`")
    if files and data is not None:
        raise Failure("give one of `data` and `files`")
    if schema_file:
        require_let(context, schema_file)
        document: Any = to_json(_parsed(context, schema_file)[1])
        schema = document
    require_schema(schema, schema_file or "schema")
    findings: list[Finding] = []
    if not files:
        findings = [finding(text, rule="schema") for text in faults(schema, data)]
    for path in found_files(context, names(files)) if files else ():
        findings += _of_file(context, path, schema)
    return judged(evidence("json_schema", "2020-12", findings, max_findings), fail)  # type: ignore[no-any-return]


def _of_file(context: Context, path: str, schema: Any) -> list[Finding]:
    try:
        source, tree = _parsed(context, path)
    except Failure as failure:
        return [finding(str(failure), rule="syntax", file=path)]
    findings = []
    for text in faults(schema, to_json(tree)):
        pointer = text.partition(": ")[0]
        findings.append(finding(text, rule="schema", file=path, place=source.place(_node(tree, pointer).span.start)))
    return findings


def _parsed(context: Context, path: str) -> tuple[Source, Node]:
    """The text of a file and its tree; raises Failure where it cannot be read or is not valid JSON or YAML."""
    try:
        with open(os.path.join(context.call.directory, path), "rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > _LARGEST:
        raise Failure(f"{path} is larger than {_LARGEST >> 20} MiB")
    source, findings = decode(content, path)
    if source is None:
        raise Failure(f"{path}: {findings[0].message}")
    parsed = parse(source)
    if parsed.tree is None:
        fault = next((finding for finding in parsed.findings if finding.severity == "error"), None)
        if fault is None:
            raise Failure(f"{path} is empty")
        line, column = source.place(fault.span.start)
        raise Failure(f"{path}, line {line}, column {column}: {fault.message}")
    return source, parsed.tree


def _node(tree: Node, pointer: str) -> Node:
    """The node that a pointer such as ``/tasks/0/id`` names, or the last one on the way to it."""
    node, rest = tree, pointer
    while rest.startswith("/") and len(rest) > 1:
        if isinstance(node, Sequence):
            number, _, after = rest[1:].partition("/")
            if not number.isdecimal() or int(number) >= len(node.items):
                return node
            node, rest = node.items[int(number)], f"/{after}" if after else ""
            continue
        keys = [key for key, _ in node.entries if _leads(rest, str(key.value))] if isinstance(node, Mapping) else []
        if not keys:
            return node
        longest = max(keys, key=lambda key: len(str(key.value)))
        value = node.get(str(longest.value))  # type: ignore[union-attr]
        if value is None:
            return node
        node, rest = value, rest[1 + len(str(longest.value)) :]
    return node


def _leads(rest: str, key: str) -> bool:
    """Keys stand in a pointer as they are written, slashes included."""
    return rest[1:] == key or rest[1:].startswith(f"{key}/")
