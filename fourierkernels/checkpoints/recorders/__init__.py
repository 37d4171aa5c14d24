"""Hooks on the attention of a torch model: recorders, one file each, and gates on heads."""
