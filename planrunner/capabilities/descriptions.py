"""What the built-in capabilities are for and what they take and give, as plain data: reading it imports no capability.

A test holds every description against what the signature of its function says.
"""

from __future__ import annotations

from planrunner.plan.model import Capability, Field

_DESCRIPTIONS = (
    Capability(
        name="fail",
        summary="Fail with a class and a message, to try out what a plan does about it.",
        effect="pure",
        inputs=(
            Field(
                name="class",
                type="string",
                default="logic",
                description="failure class: transient, logic, policy, timeout or one of your own",
                schema={"type": "string"},
            ),
            Field(
                name="message",
                type="string",
                default="failed on request",
                description="what the failure says",
                schema={"type": "string"},
            ),
        ),
        instant=True,
    ),
    Capability(
        name="files.read",
        summary="Read a text file.",
        effect="read",
        inputs=(
            Field(
                name="path",
                type="string",
                required=True,
                description="file to read, relative to the working directory",
                schema={"type": "string"},
            ),
            Field(
                name="encoding",
                type="string",
                default="utf-8",
                description="how the text is encoded",
                schema={"type": "string"},
            ),
            Field(
                name="max_bytes",
                type="size",
                default="1MiB",
                description="refuse a file larger than this",
                schema={"type": ["string", "number"]},
            ),
        ),
        outputs=(
            Field(name="content", type="string", required=True, schema={"type": "string"}),
            Field(name="size", type="int", required=True, schema={"type": "integer"}),
            Field(name="sha256", type="string", required=True, schema={"type": "string"}),
        ),
    ),
    Capability(
        name="files.write",
        summary="Write a text file: readers see the old content or the new one, never a part.",
        description=(
            "The same content already there is left alone (`changed` is false). A path that leads out of "
            "the working directory,\nby `..` or by a link, is refused with the failure class `policy`."
        ),
        effect="idempotent",
        inputs=(
            Field(
                name="path",
                type="string",
                required=True,
                description="file to write, inside the working directory",
                schema={"type": "string"},
            ),
            Field(
                name="content",
                type="string",
                required=True,
                description="the whole new content",
                schema={"type": "string"},
            ),
            Field(
                name="encoding",
                type="string",
                default="utf-8",
                description="how the text is encoded",
                schema={"type": "string"},
            ),
            Field(
                name="mode",
                type="string",
                default="",
                description="permissions in octal, such as 0644; default: those of the old file, else 0644",
                schema={"type": "string"},
            ),
            Field(
                name="parents",
                type="bool",
                default=False,
                description="create missing folders",
                schema={"type": "boolean"},
            ),
        ),
        outputs=(
            Field(name="path", type="string", required=True, schema={"type": "string"}),
            Field(name="changed", type="bool", required=True, schema={"type": "boolean"}),
            Field(name="size", type="int", required=True, schema={"type": "integer"}),
            Field(name="sha256", type="string", required=True, schema={"type": "string"}),
        ),
        risks=("replaces the file that stands there",),
    ),
    Capability(
        name="noop",
        summary="Do nothing and give back the input.",
        effect="pure",
        inputs=(Field(name="value", description="what the output `value` shall be", schema={}),),
        outputs=(Field(name="value", required=True, schema={}),),
        instant=True,
    ),
    Capability(
        name="shell",
        summary="Run a script with `sh -e`, or a program without a shell when `run` is a list.",
        description=(
            "The outputs of the task are what it writes to the file named by `$PLANRUNNER_OUTPUT` (JSON "
            "objects, `key=value` or\n`key<<END` lines), or its standard output when the task says `stdout: "
            "json | text | lines`.\n\nThe exit code decides: 0 is success, 75 a transient failure. A script "
            "ended from outside by HUP, INT, TERM or KILL\nhas failed transiently as well; everything else "
            "is a logic failure."
        ),
        takes_run=True,
        open_outputs=True,
    ),
    Capability(
        name="sleep",
        summary="Let time pass. Takes a concurrency slot, and stops at once when the run is stopped.",
        effect="pure",
        inputs=(
            Field(
                name="duration",
                type="duration",
                required=True,
                description="how long, such as 500ms, 10s or 1h30m",
                schema={"type": ["string", "number"]},
            ),
        ),
    ),
)

CAPABILITIES: dict[str, Capability] = {capability.name: capability for capability in _DESCRIPTIONS}
