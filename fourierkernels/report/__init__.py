"""What ``fourierkernels heads`` shows and writes: tables, files, figures, and a page."""
