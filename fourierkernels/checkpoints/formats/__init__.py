"""Kinds of checkpoints, one file each: how a checkpoint becomes a network that can be run."""
