"""Texts on disk as numbers of words: readers, vocabularies, memory-mapped token files."""
