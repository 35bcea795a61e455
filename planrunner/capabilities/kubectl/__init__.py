"""Kubernetes through kubectl: apply, get, delete and rollouts."""
