"""The made-up course's own kvlib."""
