"""From a name to a network ready to be looked at, and from inputs to what it reads."""
