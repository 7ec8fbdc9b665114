"""A module that the first lesson introduces."""

ONE = 1
