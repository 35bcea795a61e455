"""The addresses of the HTTP API: each hands over the document of a use case."""
