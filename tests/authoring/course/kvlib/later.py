"""A module that the second lesson introduces."""

TWO = 2
