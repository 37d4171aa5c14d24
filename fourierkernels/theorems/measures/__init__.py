"""Measures of error that theorems bound: how each is computed, simulated, and over which sizes.

One file per measure: the integrated error of a density, the error of a regression at points, the
tail quantile of a density estimate at points.
"""
