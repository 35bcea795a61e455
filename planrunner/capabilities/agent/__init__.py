"""Agents: asking a model what to do next."""
