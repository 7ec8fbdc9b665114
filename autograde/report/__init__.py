"""What a class got wrong, from its result files, and grade files for learning platforms."""
