"""Containers through the client of docker or podman: build, run, tag, push and remove images."""
