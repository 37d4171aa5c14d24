"""Hooks: what every head of a running torch model computes, and how to change it."""
