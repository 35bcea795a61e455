"""Runs handed on: reports, archives and postmortems that open without planrunner."""
