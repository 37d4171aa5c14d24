"""Estimates with a radius of each sample: rules for the factors on the radius, two estimators."""
