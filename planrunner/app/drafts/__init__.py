"""Drafts: from a goal in plain words to a plan that a person looks at before it runs."""
