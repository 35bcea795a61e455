"""All runs of a state directory, followed as they go on: summaries for lists, pushes for streams, and telemetry."""
