"""The commands: name, module, one line of help and group. Help and completion are printed from this table."""

from __future__ import annotations

GROUPS: tuple[tuple[str, str], ...] = (
    ("run", "Run plans"),
    ("people", "Decide gates"),
    ("write", "Write plans"),
    ("prove", "Test plans"),
    ("look", "Inspect runs"),
    ("surroundings", "Project and installation"),
)

COMMANDS: tuple[tuple[str, str, str, str], ...] = (
    ("exec", "exec", "Run a plan (also: run).", "run"),
    ("resume", "resume", "Continue a run that was interrupted or is waiting.", "run"),
    ("fork", "checkpoints", "Create a new run that continues from a checkpoint of another run.", "run"),
    ("pause", "control", "Let running tasks finish, start no more, and pause the run.", "run"),
    ("budget", "control", "Show or extend the budgets of a run.", "run"),
    ("cancel", "control", "Stop a run and end it.", "run"),
    ("retry", "rerun", "Retry failed tasks and continue.", "run"),
    ("rerun", "rerun", "Re-run tasks and the tasks that depend on them.", "run"),
    ("revise", "revise", "Give a run a changed plan; finished work is reused.", "run"),
    ("rollback", "rollback", "Undo the tasks of a run, last task first.", "run"),
    ("serve", "serve", "Serve a page and an HTTP API for projects.", "run"),
    ("queue", "queue", "List the queue of runs, add to it, cancel, pause and resume.", "run"),
    ("trigger", "trigger", "List what starts runs by itself; fire, pause and resume it.", "run"),
    ("worker", "worker", "Run what waits in the queue of this project.", "run"),
    ("gates", "gates", "List the gates that wait for a decision.", "people"),
    ("approve", "gates", "Approve a gate.", "people"),
    ("reject", "gates", "Reject a gate.", "people"),
    ("answer", "gates", "Choose an option of a gate, or fill in its form.", "people"),
    ("init", "project", "Create a first plan.", "write"),
    ("draft", "draft", "Draft a plan from a goal in plain words.", "write"),
    ("lint", "lint", "Check plans and report findings with exact positions.", "write"),
    ("fmt", "lint", "Format plans.", "write"),
    ("convert", "convert", "Convert a plan to YAML, the text notation or JSON.", "write"),
    ("graph", "convert", "Draw the graph of a plan.", "write"),
    ("schema", "capabilities", "Print the JSON Schema of plans, or a part of it.", "write"),
    ("rule", "capabilities", "Explain a lint rule.", "write"),
    ("policy", "trust", "Show what the tasks of a plan may do, and the line that allows it.", "write"),
    ("preview", "preview", "Show what a run would do, and its worst case.", "prove"),
    ("test", "proof", "Run the tests of plans, with simulated tasks.", "prove"),
    ("eval", "eval", "Run plans for real, score the results, and compare versions.", "prove"),
    ("chaos", "proof", "Kill a run at every journal write and compare.", "prove"),
    ("runs", "runs", "List runs.", "look"),
    ("show", "show", "Show the state of a run.", "look"),
    ("logs", "logs", "Print the output of tasks.", "look"),
    ("events", "logs", "Print the journal of a run.", "look"),
    ("why", "show", "Explain why a task ran, waited, was skipped or failed.", "look"),
    ("diff", "revise", "Compare two runs, revisions of a run, or two plans.", "look"),
    ("report", "handoff", "Write a run as one HTML file.", "look"),
    ("archive", "handoff", "Write everything about a run, for the person who takes over.", "look"),
    ("checkpoints", "checkpoints", "List checkpoints that a run can continue from.", "look"),
    ("hypotheses", "hypotheses", "Show the confidence of a run in each hypothesis, with the evidence.", "look"),
    ("artifacts", "artifacts", "List, read and delete artifacts of runs.", "look"),
    ("memory", "memory", "List, search and change the memory of runs.", "look"),
    ("kb", "kb", "List and export the knowledge base of the project.", "look"),
    ("metrics", "telemetry", "Show rates and durations of all runs, or what the time of one went to.", "look"),
    ("telemetry", "telemetry", "Send traces, metrics and notices that are outstanding.", "look"),
    ("audit", "audit", "Verify that the journal was not changed.", "look"),
    ("replay", "proof", "Replay the decisions of a run and report the first difference.", "look"),
    ("trust", "trust", "Allow plans from outside the project.", "surroundings"),
    ("token", "token", "Create, list and revoke tokens of the service.", "surroundings"),
    ("config", "project", "Show and check the settings of the project.", "surroundings"),
    ("capabilities", "capabilities", "List capabilities that tasks can call.", "surroundings"),
    ("plugins", "plugins", "List, check, create and trust plugins.", "surroundings"),
    ("secrets", "project", "List credentials of the project and check that they exist.", "surroundings"),
    ("doctor", "project", "Check the installation and its environment.", "surroundings"),
    ("shell", "shell", "Work at a prompt, with completion and a session that persists.", "surroundings"),
    ("mcp", "mcp", "Serve the project to a model by the Model Context Protocol.", "surroundings"),
    ("completion", "completion", "Print a completion script for a shell.", "surroundings"),
)
"""(name, module in ``planrunner.cli``, help, group)."""

ALIASES = {"run": "exec"}
"""Other names of commands."""

EXTRAS = {"serve": "serve"}
"""Commands whose modules need the libraries of an extra."""

MEANT = {
    "apply": "exec",
    "check": "lint",
    "clean": "runs prune",
    "continue": "resume",
    "docs": "capabilities",
    "dry-run": "exec --dry-run",
    "explain": "why",
    "format": "fmt",
    "history": "runs",
    "import": "convert",
    "kill": "cancel",
    "list": "runs",
    "log": "logs",
    "ls": "runs",
    "new": "init",
    "plan": "preview",
    "ps": "runs",
    "start": "exec",
    "status": "show",
    "stop": "cancel",
    "tasks": "show",
    "undo": "rollback",
    "up": "exec",
    "validate": "lint",
    "watch": "logs --follow",
}
"""What other tools call a command, and what it is called here."""


def module_of(name: str) -> str | None:
    """The module that declares a command, or None."""
    wanted = ALIASES.get(name, name)
    for command, module, _, _ in COMMANDS:
        if command == wanted:
            return f"planrunner.cli.{module}"
    return None
