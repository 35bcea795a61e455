"""The addresses of the page: each reads what a use case gives and fills in a template of ``views/page``."""
