"""Shared prefixes: blocks that an earlier request computed, found again by all that their content depends on.

A block's rows depend on every token up to the block's end, and on the model, the adapter and the tenant. So does its
key, and the key is all that is looked up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import index


@dataclass
class _Request:
    table: list[int]
    keys: list[bytes]  # one for each full block, in order


class PrefixIndex:
    """Block tables for requests that may begin alike. It keeps books only: the rows lie in pools of the caller's.

        num_cached = index.admit("a", tokens, ("model", "adapter", "tenant"))
        ... the caller computes tokens[num_cached:] and writes their rows into the blocks of index.table("a") ...
        index.computed("a")
        index.release("a")

    Blocks that no request holds are given out again least recently released first. Until then they can still be found.

    >>> index, who = PrefixIndex(num_blocks=4, block_size=2), ("model", "adapter", "tenant")
    >>> index.admit("a", [1, 2, 3, 4, 5], who), index.table("a")
    (0, [0, 1, 2])
    >>> index.computed("a")
    >>> index.release("a")
    >>> index.admit("b", [1, 2, 3, 9], who), index.table("b")  # the first full block is found
    (2, [0, 3])
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        """block_size: tokens in one block. Raises ValueError for a size below 1."""
        if num_blocks < 1 or block_size < 1:
            raise ValueError(f"num_blocks and block_size must be at least 1, got {num_blocks} and {block_size}")
        self.num_blocks, self.block_size = num_blocks, block_size
        self._requests: dict[Hashable, _Request] = {}
        self._holders = [0] * num_blocks
        self._free = dict.fromkeys(range(num_blocks))  # in the order in which they will be given out
        self._found: dict[bytes, dict[int, None]] = {}  # the blocks that hold a key's rows, often one
        self._key_of: dict[int, bytes] = {}

    @property
    def num_free(self) -> int:
        """Blocks that no request holds, those that can still be found included."""
        return len(self._free)

    def can_admit(self, tokens: Sequence[int], identity: Sequence[str]) -> bool:
        """Whether there is room for a request with these tokens now. ValueError for what is no request."""
        hits = self._hits(self._keys(tokens, identity), len(tokens))
        return self._missing(len(tokens), hits) <= self._room(hits)

    def admit(self, request: Hashable, tokens: Sequence[int], identity: Sequence[str]) -> int:
        """Give a new request its table, and return how many of its first tokens need not be computed.

        request: its name. tokens: whole numbers, at least one. identity: three texts, (model, adapter, tenant).
        The number returned is a multiple of block_size, as large as can be found, and less than len(tokens): the last
        token is always computed, for its logits. Raises ValueError for a request known already, for no tokens, for an
        identity that is not three texts, and where there is no room. Nothing has changed then.
        """
        if request in self._requests:
            raise ValueError(f"request {request!r} is known already")
        keys = self._keys(tokens, identity)
        hits = self._hits(keys, len(tokens))
        missing, room = self._missing(len(tokens), hits), self._room(hits)
        if missing > room:
            raise ValueError(f"request {request!r} needs {missing} more blocks, {room} free")
        for block in hits:  # first of all: a new block must not be one of them
            self._hold(block)
        new = [self._give_out() for _ in range(missing)]
        self._requests[request] = _Request(hits + new, keys)
        return len(hits) * self.block_size

    def table(self, request: Hashable) -> list[int]:
        """The request's blocks, in order. Raises ValueError for an unknown request, as all that follow."""
        return list(self._known(request).table)

    def computed(self, request: Hashable) -> None:
        """The caller has written all blocks of the request: from now on the full ones can be found."""
        known = self._known(request)
        for key, block in zip(known.keys, known.table, strict=False):  # a last block that is not full has no key
            self._found.setdefault(key, {})[block] = None
            self._key_of[block] = key

    def release(self, request: Hashable) -> None:
        """Let go of the request's blocks. What it has not computed yet is never found."""
        known = self._known(request)
        del self._requests[request]
        for block in reversed(known.table):  # the end of a prompt is given out before its beginning
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._free[block] = None

    def _known(self, request: Hashable) -> _Request:
        if request not in self._requests:
            raise ValueError(f"request {request!r} is unknown")
        return self._requests[request]

    def _keys(self, tokens: Sequence[int], identity: Sequence[str]) -> list[bytes]:
        """A key for each full block. Each holds the one before it, and so everything from the start."""
        if len(tokens) < 1:
            raise ValueError("a request needs at least 1 token, got 0")
        if isinstance(identity, str) or len(identity) != 3 or not all(isinstance(part, str) for part in identity):
            raise ValueError(f"identity must be three texts, (model, adapter, tenant), got {identity!r}")
        key, keys = _digest(b"", tuple(map(str, identity))), []
        for start in range(0, len(tokens) - self.block_size + 1, self.block_size):
            block = tuple(int(index(token)) for token in tokens[start : start + self.block_size])
            key = _digest(key, block)
            keys.append(key)
        return keys

    def _hits(self, keys: list[bytes], num_tokens: int) -> list[int]:
        """Blocks that can be reused, from the first on without a gap."""
        hits: list[int] = []
        for key in keys[: (num_tokens - 1) // self.block_size]:
            blocks = self._found.get(key)
            if not blocks:
                break
            # One that somebody holds, if there is: it takes nothing from the free ones.
            hits.append(max(blocks, key=lambda block: self._holders[block]))
        return hits

    def _missing(self, num_tokens: int, hits: list[int]) -> int:
        return -(-num_tokens // self.block_size) - len(hits)

    def _room(self, hits: list[int]) -> int:
        return len(self._free) - sum(self._holders[block] == 0 for block in hits)

    def _hold(self, block: int) -> None:
        self._free.pop(block, None)
        self._holders[block] += 1

    def _give_out(self) -> int:
        block = next(iter(self._free))
        self._hold(block)
        key = self._key_of.pop(block, None)
        if key is not None:  # its rows will be overwritten
            del self._found[key][block]
            if not self._found[key]:
                del self._found[key]
        return block


def _digest(parent: bytes, part: tuple) -> bytes:
    """32 bytes that stand for a part and all before it. The repr of a tuple quotes texts and separates numbers."""
    return hashlib.sha256(parent + repr(part).encode()).digest()
