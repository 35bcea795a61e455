"""Use cases on plan files: find, check, format, convert, draw, preview."""
