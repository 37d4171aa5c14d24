"""Fourier attention on a card: its libraries built, its results checked, its speed measured."""
