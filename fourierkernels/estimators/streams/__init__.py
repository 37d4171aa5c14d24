"""Samples in streams: blocks, files, Dask collections; only their modes are kept."""
