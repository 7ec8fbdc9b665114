"""Grading a class: submissions in, nbgrader's gradebook, feedback pages and a CSV out."""
