"""How many bytes a cache takes, how many sequences fit, and how fast a decode step can be: plain whole numbers."""
