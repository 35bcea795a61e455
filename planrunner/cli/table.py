"""The commands: name, module, one line of help and group. Top-level help and completion are printed from this table."""

from __future__ import annotations

GROUPS: tuple[tuple[str, str], ...] = (
    ("run", "Run plans"),
    ("people", "Decide gates"),
    ("write", "Write plans"),
    ("prove", "Prove plans"),
    ("look", "Look at runs"),
    ("surroundings", "Surroundings"),
)

COMMANDS: tuple[tuple[str, str, str, str], ...] = (
    ("exec", "exec", "Run a plan (also: run).", "run"),
    ("resume", "resume", "Go on with a run that was interrupted or waits.", "run"),
    ("fork", "checkpoints", "Make a new run that goes on from a checkpoint of another one.", "run"),
    ("pause", "control", "Let what runs end, start nothing more, and park the run.", "run"),
    ("budget", "control", "Show or extend the budgets of a run.", "run"),
    ("cancel", "control", "Stop a run for good.", "run"),
    ("retry", "rerun", "Begin what failed anew and go on.", "run"),
    ("rerun", "rerun", "Begin tasks anew, and what comes after them.", "run"),
    ("revise", "revise", "Give a run a mended plan; finished work is kept.", "run"),
    ("rollback", "rollback", "Undo what a run did, the last task first.", "run"),
    ("gates", "gates", "List what waits for people.", "people"),
    ("approve", "gates", "Approve what a gate asks.", "people"),
    ("reject", "gates", "Reject what a gate asks.", "people"),
    ("answer", "gates", "Choose an option of a gate, or fill its form.", "people"),
    ("init", "project", "Write a first plan to start from.", "write"),
    ("lint", "lint", "Check plans; findings have exact positions.", "write"),
    ("fmt", "lint", "Rewrite plans in the canonical form.", "write"),
    ("convert", "convert", "Turn a plan into YAML, the text notation or JSON.", "write"),
    ("graph", "convert", "Draw the graph of a plan.", "write"),
    ("schema", "capabilities", "Print the JSON Schema of plans, or a part of it.", "write"),
    ("rule", "capabilities", "Explain a lint rule.", "write"),
    ("policy", "trust", "Tell what the tasks of a plan may do, and which line says so.", "write"),
    ("preview", "preview", "Tell what a run would do, in the worst case too.", "prove"),
    ("test", "proof", "Test plans in imagined worlds.", "prove"),
    ("chaos", "proof", "Kill a run at every journal write and compare.", "prove"),
    ("runs", "runs", "List runs.", "look"),
    ("show", "show", "Show how a run stands or ended.", "look"),
    ("logs", "show", "Print what the tasks of a run wrote.", "look"),
    ("events", "show", "Print the journal of a run.", "look"),
    ("why", "show", "Tell why a task ran, waited, was skipped or failed.", "look"),
    ("diff", "revise", "Show what differs between revisions of a run, or plans.", "look"),
    ("checkpoints", "checkpoints", "List the places that a run can be taken up from.", "look"),
    ("artifacts", "artifacts", "List, read and clear what runs kept.", "look"),
    ("audit", "audit", "Prove that the journal is what was written.", "look"),
    ("replay", "proof", "Decide a recorded run again and tell the first difference.", "look"),
    ("trust", "trust", "Say which plans from outside the project may run.", "surroundings"),
    ("config", "project", "Check and show the settings of the project.", "surroundings"),
    ("capabilities", "capabilities", "List what tasks can call.", "surroundings"),
    ("plugins", "plugins", "List, check, write and trust plugins.", "surroundings"),
    ("secrets", "project", "List the credentials of the project, and check that they are there.", "surroundings"),
    ("doctor", "project", "Check this installation and its surroundings.", "surroundings"),
    ("completion", "completion", "Print a completion script for a shell.", "surroundings"),
)
"""(name, module in ``planrunner.cli``, help, group)."""

ALIASES = {"run": "exec"}
"""Other names of commands."""

MEANT = {
    "apply": "exec",
    "check": "lint",
    "continue": "resume",
    "format": "fmt",
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
    "undo": "rollback",
    "validate": "lint",
}
"""What other tools call a command, and what it is called here."""

GLOBAL_OPTIONS: tuple[tuple[str, str], ...] = (
    ("-C DIR", "Work in DIR, as if planrunner had been called there."),
    ("--state DIR", "Where runs are kept (else PLANRUNNER_STATE, else .planrunner of the project)."),
    ("--profile NAME", "The profile of planrunner.yaml to go by (else PLANRUNNER_PROFILE); none for none."),
    ("--color auto|always|never", "Colour; NO_COLOR and FORCE_COLOR are heeded too."),
    ("--no-input", "Never ask anything."),
    ("--no-plugins", "Leave plugins out: only what planrunner comes with."),
    ("--version", "Print the version."),
    ("-h, --help", "Print this text."),
)

USAGE = "Usage: planrunner [OPTIONS] COMMAND [ARGS]..."


def help_text() -> str:
    """What ``planrunner --help`` prints."""
    lines = [
        USAGE,
        "",
        "  People write plans as files, lint them and run them with one command.",
        "",
        "Examples:",
        "  planrunner init                      write plans/hello.yaml",
        "  planrunner lint plans/hello.yaml     check it",
        "  planrunner exec plans/hello.yaml     run it",
        "  planrunner show last                 see how it went",
    ]
    for group, title in GROUPS:
        lines += ["", f"{title}:"]
        lines += [f"  {name:<14}{text}" for name, _, text, of in COMMANDS if of == group]
    lines += ["", "Options:"]
    lines += [f"  {option:<28}{text}" for option, text in GLOBAL_OPTIONS]
    lines += ["", "'planrunner COMMAND --help' tells more about a command."]
    return "\n".join(lines) + "\n"


def module_of(name: str) -> str | None:
    """The module that declares a command, or None."""
    wanted = ALIASES.get(name, name)
    for command, module, _, _ in COMMANDS:
        if command == wanted:
            return f"planrunner.cli.{module}"
    return None
