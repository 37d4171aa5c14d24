"""The same work on many pieces: by processes on this machine, or by a Dask cluster."""
