"""Shared foundation: arrays and their checks, files, terminals, devices, extras, workers."""
