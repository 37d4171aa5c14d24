"""Data to train on: a reader for each layout on disk, vocabularies, splits, batches.

Texts and pairs of texts become memory-mapped files of token numbers, images and time series arrays.
"""
