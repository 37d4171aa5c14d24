"""Documents to pre-train encoders on: readers, subwords, and pairs of segments with masks."""
