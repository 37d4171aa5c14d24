"""Time series with a class each."""
