"""Releases through helm: upgrade, roll back, uninstall, status and template."""
