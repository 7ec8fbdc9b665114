"""Reference implementations for a course on the transformer KV cache.

One noun per file, to be read beside the lesson that introduces it. Knows nothing of Jupyter or of grading.

Letters, the same in every docstring and shape comment: B sequences, T new tokens in this call, S tokens held, L layers,
H query heads, Hkv KV heads, G = H // Hkv, D head dim.
"""

__version__ = "0.1.0"
