"""The knowledge base of a project: notes and claims, what speaks for and against them, as files."""
