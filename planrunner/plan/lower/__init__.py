"""Lowering: from the canonical tree to a plan (``plan``), task by task, key by key."""
