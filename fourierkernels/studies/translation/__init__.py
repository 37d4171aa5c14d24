"""Sentences in two languages: readers, filters, splits, joint BPE, mapped files and batches."""
