"""``dask.run``: programs on the workers of a Dask cluster."""
