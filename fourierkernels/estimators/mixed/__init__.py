"""Density and regression of mixed data: categories beside numbers in one fit."""
