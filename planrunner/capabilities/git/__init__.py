"""Git by the installed program: what is looked at, what is changed, and how each change is taken back exactly."""
