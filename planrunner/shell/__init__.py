"""The interactive shell: a prompt for commands, the live view of a run, and stepping through a recorded one."""
