"""The options of every command with their help, for completion, to which the import of click would be slow.

Printed by ``python -m planrunner.cli.reference option_table.py``.
"""

from __future__ import annotations

# fmt: off
OPTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "exec": (
        ("--param", "Set a parameter."),
        ("--params-file", "Read parameters from a YAML or JSON file; -p comes before it."),
        ("--only", "Run only this task; may be repeated."),
        ("--until", "Run this task and what it needs; may be repeated."),
        ("--max-parallel", "At most N tasks at once."),
        ("--seed", "Seed of everything random in the run."),
        ("--dry-run", "Go through the plan without acting."),
        ("--preview", "Run only what this saved preview shows; else leave with code 10."),
        ("--json", "Print one JSON object about the run at the end."),
        ("--progress", "How progress is shown (auto: tree on a terminal, github in its Actions, plain elsewhere)."),
        ("--no-wait", "At a terminal too, leave with code 8 where a gate waits."),
    ),
    "resume": (
        ("--settle", "Say what became of a task in doubt: retry, completed, failed or rollback."),
        ("--unattended", "Ask nobody: undo and fail what is in doubt, where it says how."),
        ("--from", "Go on from a checkpoint, as a new run; this one stays as it is."),
        ("--restore-files", "With --from: make the files of the directory what they were then."),
        ("--yes", "Do not ask before files change."),
        ("--json", "Print one JSON object about the run at the end."),
        ("--progress", "How progress is shown."),
        ("--no-wait", "At a terminal too, leave with code 8 where a gate waits."),
    ),
    "fork": (
        ("--from", "A checkpoint, or a task for its last one."),
        ("--at", "After this entry of the journal instead."),
        ("--param", "Set a parameter anew."),
        ("--restore-files", "Make the files of the directory what they were then."),
        ("--yes", "Do not ask before files change."),
        ("--json", "Print JSON."),
    ),
    "pause": (
        ("--reason", "Why; kept with the run."),
        ("--json", "Print JSON."),
    ),
    "budget": (
        ("--add", "Add to a limit; may be repeated."),
        ("--task", "The limit of this task, not of the plan."),
        ("--reason", "Why; kept with the run."),
        ("--json", "Print JSON."),
    ),
    "cancel": (
        ("--reason", "Why; kept with the run."),
        ("--task", "Stop only what this task does now; the run goes on."),
        ("--now", "Kill what runs at once, and leave out what stands under `finally`."),
        ("--json", "Print JSON."),
    ),
    "retry": (
        ("--preview", "Only tell what would begin anew."),
        ("--json", "Print JSON."),
    ),
    "rerun": (
        ("--downstream", "Begin everything after them anew as well, whatever its inputs."),
        ("--only-failed", "Leave tasks that went well as they are."),
        ("--preview", "Only tell what would begin anew."),
        ("--json", "Print JSON."),
    ),
    "rollback": (
        ("--to", "Undo what started after this task, and keep the task itself."),
        ("--only", "Undo only this task, or those with this label."),
        ("--strict", "Stop at the first that fails, or go on after it."),
        ("--reason", "Why; it is kept with the run."),
        ("--preview", "Only tell what would be undone."),
        ("--json", "Print JSON."),
        ("--progress", "How progress is shown."),
    ),
    "gates": (
        ("--json", "Print JSON."),
    ),
    "approve": (
        ("--reason", "Why; kept with the decision."),
        ("--as", "Who you are, where the system does not know."),
        ("--role", "A role you have; may be repeated."),
        ("--shown", "Only if this is what is asked: see `planrunner gates`."),
        ("--resume", "Go on with the run at once."),
        ("--json", "Print JSON."),
    ),
    "reject": (
        ("--reason", "Why; handed to the tasks that are done again."),
        ("--rework", "Only if that sends the run back instead of failing the gate."),
        ("--as", "Who you are, where the system does not know."),
        ("--role", "A role you have; may be repeated."),
        ("--shown", "Only if this is what is asked: see `planrunner gates`."),
        ("--resume", "Go on with the run at once."),
        ("--json", "Print JSON."),
    ),
    "answer": (
        ("--field", "Fill a field."),
        ("--reason", "Why; kept with the decision."),
        ("--as", "Who you are, where the system does not know."),
        ("--role", "A role you have; may be repeated."),
        ("--shown", "Only if this is what is asked: see `planrunner gates`."),
        ("--resume", "Go on with the run at once."),
        ("--json", "Print JSON."),
    ),
    "init": (),
    "lint": (
        ("--format", "How to print."),
        ("--fix", "Mend what can be mended without changing the plan's meaning."),
        ("--unsafe-fixes", "Mend also where the meaning may change; --fix=all is the same."),
        ("--diff", "Show what --fix would change, write nothing."),
        ("--select", "Only these rules: codes, names or beginnings."),
        ("--ignore", "Without these rules."),
        ("--fail-on", "What gives code 1."),
        ("--stdin-filename", "What the plan on standard input is called."),
    ),
    "fmt": (
        ("--check", "Write nothing; code 1 where a plan is not in canonical form."),
        ("--diff", "Write nothing; show what would change."),
        ("--stdin-filename", "What the plan on standard input is called."),
    ),
    "convert": (
        ("--to", "The notation to write."),
        ("--output", "Write to a file, which must not exist."),
        ("--stdin-filename", "What the plan on standard input is called."),
    ),
    "graph": (
        ("--format", "What to write."),
        ("--run", "Colour by how a run stands; without PLAN its own plan is drawn."),
    ),
    "schema": (
        ("--write", "Write to a file, with the inputs of the installed capabilities."),
    ),
    "rule": (
        ("--all", "Every rule."),
        ("--json", "Print JSON."),
    ),
    "preview": (
        ("--param", "Set a parameter."),
        ("--params-file", "Read parameters from a YAML or JSON file; -p comes before it."),
        ("--only", "Run only this task; may be repeated."),
        ("--until", "Run this task and what it needs; may be repeated."),
        ("--max-parallel", "At most N tasks at once."),
        ("--save", "Write the preview to a file, for `exec --preview FILE`."),
        ("--json", "Print JSON."),
    ),
    "test": (
        ("--coverage", "List what no case reached."),
        ("--min-coverage", "Code 1 where a plan is covered less."),
        ("--junit", "Write JUnit XML as well."),
        ("--json", "Print JSON."),
    ),
    "chaos": (
        ("--param", "Set a parameter."),
        ("--kills", "Every write (all), or N of them."),
        ("--pairs", "Runs killed twice (24)."),
        ("--seed", "Random durations and failures."),
        ("--time", "Stop after so long, such as 60s."),
        ("--only-write", "Repeat one run: 17, or 17:after,19:before."),
        ("--after", "Whether the entries of --only-write reach the disk."),
        ("--real", "Run the real plan in scratch copies of the project: its effects are real."),
        ("--json", "Print JSON."),
    ),
    "runs": (
        ("--limit", "At most N (20)."),
        ("--skip", "Leave out the first N: the next page."),
        ("--status", "Only runs that stand so."),
        ("--plan", "Only runs of this plan."),
        ("--since", "Begun then or later: `2h` ago, or a date."),
        ("--until", "Begun before that."),
        ("--json", "Print JSON."),
    ),
    "show": (
        ("--json", "Print the JSON object that `exec --json` prints."),
        ("--all", "List every task, whatever there is to tell of it."),
        ("--timeline", "Add a bar for each attempt."),
    ),
    "logs": (
        ("--follow", "Go on as long as the run does."),
        ("--attempt", "Only attempt N."),
        ("--tail", "Only the last N lines of each."),
    ),
    "events": (
        ("--json", "Print JSON lines."),
        ("--type", "Only such as attempt_ended; repeatable."),
        ("--task", "Only entries about a task and all that it holds."),
        ("--after", "Only what follows this entry."),
        ("--limit", "At most N entries."),
        ("--follow", "Go on as long as the run does."),
        ("--export", "Write the run with its plan to a file, for `planrunner replay FILE`."),
    ),
    "why": (
        ("--json", "Print JSON."),
    ),
    "checkpoints": (
        ("--json", "Print JSON."),
    ),
    "replay": (
        ("--plan", "Replay with an edited plan instead of the run's own."),
        ("--json", "Print JSON."),
    ),
    "capabilities": (
        ("--json", "Print JSON, with the schema of the inputs."),
    ),
    "doctor": (
        ("--json", "Print JSON, for reports of faults."),
    ),
    "completion": (),
}
