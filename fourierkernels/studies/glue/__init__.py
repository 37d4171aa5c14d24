"""Tasks of sentences and pairs of sentences, in the files that GLUE distributes."""
