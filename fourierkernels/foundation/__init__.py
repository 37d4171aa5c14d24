"""What every room may use: arrays and their checks, files, terminals, devices, extras, workers."""
