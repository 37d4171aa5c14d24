"""The studies of the papers, one file each."""
