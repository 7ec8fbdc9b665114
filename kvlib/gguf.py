"""Reads a GGUF file: the metadata, and the tensors as float32.

GGUF is the file format of llama.cpp: a header of keys and values (the tokenizer among them), a table of tensors, then
their numbers, most of them in blocks of 32 with a scale for each block. Format: the GGUF page of the ggml project.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MAGIC, VERSION = b"GGUF", 3
PLAIN = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TEXT, LIST = 8, 9
F32, Q4_1, Q8_0 = 0, 3, 8
BLOCK = 32  # numbers that share a scale
Q4_1_BLOCK = np.dtype([("scale", "<f2"), ("low", "<f2"), ("nibbles", "u1", BLOCK // 2)])
Q8_0_BLOCK = np.dtype([("scale", "<f2"), ("codes", "i1", BLOCK)])


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies in the file, and how."""

    kind: int
    shape: tuple[int, ...]  # as torch writes it: rows first
    offset: int  # bytes from the start of the file


class GGUF:
    """A GGUF file, looked into without reading all of it.

    metadata: its keys and values. entries: its tensors by name. `tensor(name)` is one of them as a float32 array.

    A file with a header (no tensors, one key) and the key "width", of type 4, which is a uint32:

    >>> import tempfile
    >>> header = MAGIC + struct.pack("<IQQ", VERSION, 0, 1) + struct.pack("<Q5sII", 5, b"width", 4, 64)
    >>> with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    ...     path = Path(folder, "small.gguf")
    ...     _ = path.write_bytes(header)
    ...     GGUF(path).metadata
    {'width': 64}
    """

    def __init__(self, path: Path | str) -> None:
        """Raises ValueError for a file that is no GGUF of version 3."""
        self.data = np.memmap(path, np.uint8, "r")
        self._at = 0
        if bytes(self._bytes(4)) != MAGIC:
            raise ValueError(f"{path} is no GGUF file")
        version, num_tensors, num_keys = self._plain("<I"), self._plain("<Q"), self._plain("<Q")
        if version != VERSION:
            raise ValueError(f"{path} is GGUF version {version}, wanted {VERSION}")
        self.metadata: dict[str, Any] = {}
        for _ in range(num_keys):
            key = self._text()
            self.metadata[key] = self._value(self._plain("<I"))
        table = [self._entry() for _ in range(num_tensors)]
        align = self.metadata.get("general.alignment", 32)
        start = -(-self._at // align) * align
        self.entries = {name: Entry(kind, shape, start + offset) for name, kind, shape, offset in table}

    def tensor(self, name: str) -> np.ndarray:
        """One tensor, float32, of the shape of its entry.

        Raises KeyError for an unknown name, and ValueError for an encoding not known here.
        """
        entry = self.entries[name]
        count = int(np.prod(entry.shape))
        if entry.kind == F32:
            return np.frombuffer(self.data, "<f4", count, entry.offset).reshape(entry.shape).copy()
        if entry.kind == Q8_0:
            blocks = np.frombuffer(self.data, Q8_0_BLOCK, count // BLOCK, entry.offset)
            rows = blocks["codes"] * blocks["scale"].astype(np.float32)[:, None]  # (blocks, 32)
            return rows.reshape(entry.shape)
        if entry.kind == Q4_1:
            blocks = np.frombuffer(self.data, Q4_1_BLOCK, count // BLOCK, entry.offset)
            low, high = blocks["nibbles"] & 15, blocks["nibbles"] >> 4  # numbers 0 to 15, then 16 to 31
            codes = np.concatenate([low, high], axis=1)  # (blocks, 32)
            scale, floor = (blocks[part].astype(np.float32)[:, None] for part in ("scale", "low"))
            return (codes * scale + floor).reshape(entry.shape)
        raise ValueError(f"tensor {name} has encoding {entry.kind}; known here are {F32} F32, {Q4_1} Q4_1, {Q8_0} Q8_0")

    def _bytes(self, count: int) -> np.ndarray:
        if self._at + count > len(self.data):
            raise ValueError(f"the file ends after {len(self.data)} bytes, {self._at + count} wanted")
        self._at += count
        return self.data[self._at - count : self._at]

    def _plain(self, form: str) -> Any:
        return struct.unpack(form, bytes(self._bytes(struct.calcsize(form))))[0]

    def _text(self) -> str:
        return bytes(self._bytes(self._plain("<Q"))).decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind != LIST:
            return self._plain(PLAIN[kind])
        kind, count = self._plain("<I"), self._plain("<Q")
        return [self._value(kind) for _ in range(count)]

    def _entry(self) -> tuple[str, int, tuple[int, ...], int]:
        name, num_axes = self._text(), self._plain("<I")
        shape = tuple(self._plain("<Q") for _ in range(num_axes))[::-1]  # the file names the fastest axis first
        return name, self._plain("<I"), shape, self._plain("<Q")
