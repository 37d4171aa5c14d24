"""Readers of labelled images, and the batches that a run makes of them."""
