"""Runs a student's code in a process that can neither see nor harm anything, and that nobody believes a word of."""
