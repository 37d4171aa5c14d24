"""Recorded episodes of continuous control: states, actions and rewards, step by step."""
