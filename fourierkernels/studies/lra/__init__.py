"""The tasks of the Long-Range Arena: long sequences of tokens, each of one class."""
