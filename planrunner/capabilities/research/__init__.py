"""Research: search, fetch, de-duplicate, rank, facts with provenance, citations."""
