"""Wrong and right ways to write the latent cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.exercises.absorbed_attend.candidates import all_seen, attend, top_left
from autograde.exercises.explicit_attend.candidates import attend as attend_explicitly
from autograde.exercises.explicit_attend.candidates import joined
from autograde.lazy import torch


class Base:
    """One buffer (B, max_len, R + Dr), made in the first call."""

    def __init__(self, layer, max_len):
        self.layer, self.max_len, self.used, self.buffer = layer, max_len, 0, None

    def __len__(self):
        return self.used

    def forward(self, x):
        self.refuse(x)
        positions = torch.arange(self.used, self.used + x.shape[1])
        q_nope, q_pe = self.queries(x, positions)
        rows = self.rows(x, positions)
        self.write(rows)
        self.used += x.shape[1]
        return self.attend(q_nope, q_pe, *self.read(x.shape[1]))

    def refuse(self, x):
        self.refuse_tokens(x.shape[1])
        if self.buffer is not None and len(self.buffer) != len(x):
            raise ValueError("another number of sequences")

    def refuse_tokens(self, T):
        if self.used + T > self.max_len:
            raise ValueError("no room")

    def queries(self, x, positions):
        q_nope, q_pe = self.layer.queries(x)
        return q_nope, self.layer.rotate(q_pe, positions)

    def rows(self, x, positions):
        c_kv, k_pe = self.layer.latent(x)
        return torch.cat((c_kv, self.layer.rotate(k_pe, positions)), -1)

    def room(self):
        return self.max_len

    def write(self, rows):
        if self.buffer is None:
            self.buffer = rows.new_zeros(len(rows), self.room(), rows.shape[2])
        self.buffer[:, self.used : self.used + rows.shape[1]] = rows

    def read(self, T):
        """c_kv and k_pe of all that is held."""
        rows = self.buffer[:, : self.used]
        return rows[..., : self.layer.kv_lora_rank], rows[..., self.layer.kv_lora_rank :]

    def attend(self, q_nope, q_pe, c_kv, k_pe):
        return attend(q_nope, q_pe, c_kv, k_pe, self.layer.w_uk, self.layer.w_uv)

    def truncate(self, length):
        if not 0 <= length <= self.used:
            raise ValueError("length")
        self.used = length


# Positions.


class PositionsRestart(Base):
    def queries(self, x, positions):
        return super().queries(x, positions - self.used)

    def rows(self, x, positions):
        return super().rows(x, positions - self.used)


class ForgetsBatch(Base):
    def truncate(self, length):
        super().truncate(length)
        self.buffer = self.buffer if length else None


class KeysRestart(Base):
    def rows(self, x, positions):
        return super().rows(x, positions - self.used)


class QueriesRestart(Base):
    def queries(self, x, positions):
        return super().queries(x, positions - self.used)


class QueriesOneLater(Base):
    def queries(self, x, positions):
        return super().queries(x, positions + 1)


class ByCalls(Base):
    """The position moves on by one in each call, and not by T."""

    calls = 0

    def queries(self, x, positions):
        return super().queries(x, positions - self.used + self.calls)

    def rows(self, x, positions):
        rows = super().rows(x, positions - self.used + self.calls)
        self.calls += 1
        return rows


class FirstForAll(Base):
    """All T tokens of a chunk are turned at the first one's position."""

    def queries(self, x, positions):
        return super().queries(x, positions[:1].repeat(len(positions)))

    def rows(self, x, positions):
        return super().rows(x, positions[:1].repeat(len(positions)))


class QueriesAtTheFirst(Base):
    def queries(self, x, positions):
        return super().queries(x, positions[:1].repeat(len(positions)))


class QueriesAtTheLast(Base):
    def queries(self, x, positions):
        return super().queries(x, positions[-1:].repeat(len(positions)))


class QueriesNotTurned(Base):
    def queries(self, x, positions):
        return self.layer.queries(x)


class KeysNotTurned(Base):
    def rows(self, x, positions):
        return torch.cat(tuple(self.layer.latent(x)), -1)


class NothingTurned(Base):
    def queries(self, x, positions):
        return self.layer.queries(x)

    def rows(self, x, positions):
        return torch.cat(tuple(self.layer.latent(x)), -1)


class TurnedAgain(Base):
    """Turned when it is stored, and once more whenever it is read."""

    def read(self, T):
        c_kv, k_pe = super().read(T)
        return c_kv, self.layer.rotate(k_pe, torch.arange(self.used))


class TurnedWhenRead(Base):
    """Held as it came, turned in every call: right numbers, and S rows of work for each new token."""

    def rows(self, x, positions):
        return torch.cat(tuple(self.layer.latent(x)), -1)

    def read(self, T):
        c_kv, k_pe = super().read(T)
        return c_kv, self.layer.rotate(k_pe, torch.arange(self.used))


class LatentTurned(Base):
    """The latent is turned too, its first Dr numbers."""

    def rows(self, x, positions):
        rows, Dr = super().rows(x, positions), self.layer.rope_dim
        return torch.cat((self.layer.rotate(rows[..., :Dr], positions), rows[..., Dr:]), -1)


class ContentTurned(Base):
    """The queries' other part is turned too, its first Dr numbers."""

    def queries(self, x, positions):
        q_nope, q_pe = super().queries(x, positions)
        Dr = min(self.layer.rope_dim, q_nope.shape[3] // 2 * 2)
        if Dr < self.layer.rope_dim:
            return q_nope, q_pe
        return torch.cat((self.layer.rotate(q_nope[..., :Dr], positions), q_nope[..., Dr:]), -1), q_pe


# What is held and read.


class NewTokensOnly(Base):
    """What was held before is not read."""

    def read(self, T):
        return tuple(part[:, -T:] for part in super().read(T))


class WholeBuffer(Base):
    """All max_len rows are read, as if they were all tokens."""

    def read(self, T):
        R = self.layer.kv_lora_rank
        return self.buffer[..., :R], self.buffer[..., R:]


class FromSlotZero(Base):
    def write(self, rows):
        used, self.used = self.used, 0
        super().write(rows)
        self.used = used


class OneSlotBack(Base):
    """The last row is written over."""

    def write(self, rows):
        used, self.used = self.used, max(self.used - 1, 0)
        super().write(rows)
        self.used = used


class PositionsFirst(Base):
    """Rows are [c_kv, k_pe] and are read as [k_pe, c_kv]."""

    def read(self, T):
        rows, Dr = self.buffer[:, : self.used], self.layer.rope_dim
        return rows[..., Dr:], rows[..., :Dr]


class FirstSequence(Base):
    def rows(self, x, positions):
        return super().rows(x, positions)[:1].expand(len(x), -1, -1)


class RoomOfTheFirstCall(Base):
    """The buffer is as long as the first chunk; what comes later pushes the oldest out."""

    def write(self, rows):
        if self.buffer is None:
            self.buffer = rows
            return
        kept = self.buffer.shape[1]
        self.buffer = torch.cat((self.buffer, rows), 1)[:, -kept:]


class AllSeen(Base):
    def attend(self, q_nope, q_pe, c_kv, k_pe):
        return attend(q_nope, q_pe, c_kv, k_pe, self.layer.w_uk, self.layer.w_uv, seen=all_seen)


class TopLeft(Base):
    def attend(self, q_nope, q_pe, c_kv, k_pe):
        return attend(q_nope, q_pe, c_kv, k_pe, self.layer.w_uk, self.layer.w_uv, seen=top_left)


class ScaledByWidth(Base):
    def attend(self, q_nope, q_pe, c_kv, k_pe):
        scale = lambda Dn, Dr, Dv, R: (R + Dr) ** -0.5  # noqa: E731
        return attend(q_nope, q_pe, c_kv, k_pe, self.layer.w_uk, self.layer.w_uv, scale=scale)


class MatrixScaled(Base):
    """The scale is put into the layer's matrix, again in every call."""

    def attend(self, q_nope, q_pe, c_kv, k_pe):
        factor = (q_nope.shape[3] + q_pe.shape[3]) ** 0.5
        self.layer.w_uk /= factor
        w_uk, w_uv = self.layer.w_uk, self.layer.w_uv
        return attend(q_nope, q_pe / factor, c_kv, k_pe, w_uk, w_uv, scale=lambda *_: 1.0)


class LastTokenOnly(Base):
    def forward(self, x):
        return super().forward(x)[:, :, -1:]


class HeadsBehind(Base):
    def forward(self, x):
        return super().forward(x).transpose(1, 2)


# Work.


class Recomputed(Base):
    """All tokens so far are kept, and their latents made anew in every call."""

    x = None

    def forward(self, x):
        self.refuse(x)
        self.x = x if self.x is None else torch.cat((self.x[:, : self.used], x), 1)
        used, self.used = self.used, 0
        rows = self.rows(self.x, torch.arange(self.x.shape[1]))
        self.write(rows)
        self.used = used + x.shape[1]
        q_nope, q_pe = self.queries(x, torch.arange(used, self.used))
        return self.attend(q_nope, q_pe, *self.read(x.shape[1]))


class LatentTwice(Base):
    """Asked once for c_kv and once for k_pe."""

    def rows(self, x, positions):
        c_kv, k_pe = self.layer.latent(x)[0], self.layer.latent(x)[1]
        return torch.cat((c_kv, self.layer.rotate(k_pe, positions)), -1)


class QueriesTwice(Base):
    """Asked once for q_nope and once for q_pe."""

    def queries(self, x, positions):
        return self.layer.queries(x)[0], self.layer.rotate(self.layer.queries(x)[1], positions)


class TurnedForEachHead(Base):
    """The one key is turned once for every head."""

    def rows(self, x, positions):
        c_kv, k_pe = self.layer.latent(x)
        turned = self.layer.rotate(k_pe[:, None].repeat(1, len(self.layer.w_uk), 1, 1), positions)
        return torch.cat((c_kv, turned[:, 0]), -1)


# Memory.


class WholeRows(Base):
    """Keys and values of every head, as in the cache of lesson 04."""

    def make(self, c_kv, k_pe):
        k_nope, v = (torch.einsum("bsr,hdr->bhsd", c_kv, w) for w in (self.layer.w_uk, self.layer.w_uv))
        return torch.cat((k_nope, k_pe[:, None].expand(-1, len(self.layer.w_uk), -1, -1), v), -1)

    def rows(self, x, positions):
        c_kv, k_pe = self.layer.latent(x)
        rows = self.make(c_kv, self.layer.rotate(k_pe, positions))
        return rows.transpose(1, 2).flatten(2)  # (B, T, H*(Dn + Dr + Dv))

    def read(self, T):
        rows = self.buffer[:, : self.used].unflatten(2, (len(self.layer.w_uk), -1)).transpose(1, 2)
        Dv = self.layer.w_uv.shape[1]
        return rows[..., :-Dv], rows[..., -Dv:]

    def attend(self, q_nope, q_pe, k, v):
        T, S = q_nope.shape[2], k.shape[2]
        scores = torch.cat((q_nope, q_pe), -1) @ k.mT / k.shape[3] ** 0.5
        seen = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v


class RotaryKeyForEachHead(Base):
    """k_pe is held once for every head."""

    def rows(self, x, positions):
        rows = super().rows(x, positions)
        return torch.cat((rows, rows[..., self.layer.kv_lora_rank :].repeat(1, 1, len(self.layer.w_uk) - 1)), -1)

    def read(self, T):
        c_kv, k_pe = super().read(T)
        return c_kv, k_pe[..., : self.layer.rope_dim]


class KeysAndValues(Base):
    """A latent for keys and the same again for values."""

    def rows(self, x, positions):
        rows = super().rows(x, positions)
        return torch.cat((rows, rows[..., : self.layer.kv_lora_rank]), -1)

    def read(self, T):
        c_kv, k_pe = super().read(T)
        return c_kv, k_pe[..., : self.layer.rope_dim]


class TwiceTheRoom(Base):
    def room(self):
        return 2 * self.max_len


class SixtyFour(Base):
    """Room for 64 tokens, whatever max_len is."""

    def room(self):
        return 64

    def write(self, rows):
        rows = rows[:, : max(64 - self.used, 0)]
        super().write(rows)


class Expanded(Base):
    """Latents are held, and every head's keys and values made of them in every call."""

    def attend(self, q_nope, q_pe, c_kv, k_pe):
        return joined(q_nope, q_pe, c_kv, k_pe, self.layer.w_uk, self.layer.w_uv)


class ValuesExpanded(Base):
    def attend(self, q_nope, q_pe, c_kv, k_pe):
        v = torch.einsum("bsr,hdr->bhsd", c_kv, self.layer.w_uv)
        mix = lambda weights, c: weights @ v  # noqa: E731
        w_uk, w_uv = self.layer.w_uk, self.layer.w_uv
        return attend(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv, mix=mix, out=lambda out, w: out)


class KeysExpanded(Base):
    def attend(self, q_nope, q_pe, c_kv, k_pe):
        k = torch.einsum("bsr,hdr->bhsd", c_kv, self.layer.w_uk)
        parts = {"query": lambda q, w: q, "content": lambda q, c: q @ k.mT}
        return attend(q_nope, q_pe, c_kv, k_pe, self.layer.w_uk, self.layer.w_uv, **parts)


class OutputsKept(Base):
    """Every output is kept too."""

    def __init__(self, layer, max_len):
        super().__init__(layer, max_len)
        self.outputs = []

    def forward(self, x):
        self.outputs.append(super().forward(x))
        return self.outputs[-1]


# Refusals.


class NeverRefuses(Base):
    """The slice past the end takes what fits, without a word, and torch is asked to spread the rest."""

    def refuse_tokens(self, T):
        pass

    def write(self, rows):
        if self.buffer is None:
            self.buffer = rows.new_zeros(len(rows), self.room(), rows.shape[2])
        part = self.buffer[:, self.used : self.used + rows.shape[1]]
        part[:] = rows[:, : part.shape[1]]


class Grows(Base):
    """More room is made when there is none left."""

    def refuse_tokens(self, T):
        if self.buffer is not None and self.used + T > self.buffer.shape[1]:
            self.buffer = torch.cat((self.buffer, self.buffer.new_zeros(len(self.buffer), T, self.buffer.shape[2])), 1)

    def write(self, rows):
        if self.buffer is None and rows.shape[1] > self.max_len:
            self.buffer = rows.new_zeros(len(rows), rows.shape[1], rows.shape[2])
        super().write(rows)


class DropsTheOldest(Base):
    """When it is full, the oldest tokens go."""

    def refuse_tokens(self, T):
        over = self.used + T - self.max_len
        if over > 0 and self.buffer is not None and self.max_len >= T:
            self.buffer = self.buffer.roll(-over, 1)
            self.used -= over
        elif over > 0:
            raise ValueError("no room")


class OneTooEarly(Base):
    def refuse_tokens(self, T):
        if self.used + T >= self.max_len:
            raise ValueError("no room")


class OnlyWhenFull(Base):
    """Refuses when it is full already; a chunk that goes past the end is cut."""

    def refuse_tokens(self, T):
        if self.used >= self.max_len:
            raise ValueError("no room")

    def write(self, rows):
        super().write(rows[:, : self.max_len - self.used])


class ChunkAlone(Base):
    """The chunk's own length is checked, not what is held with it."""

    def refuse_tokens(self, T):
        if self.max_len < T:
            raise ValueError("no room")

    def write(self, rows):
        super().write(rows[:, : max(self.max_len - self.used, 0)])


class CountsFirst(Base):
    """The length moves on before the refusal."""

    def refuse_tokens(self, T):
        self.used += T
        if self.used > self.max_len:
            raise ValueError("no room")
        self.used -= T


class CountsBeforeTheLayer(Base):
    """The length moves on before the layer is asked, which may refuse too."""

    def forward(self, x):
        self.refuse(x)
        first, self.used = self.used, self.used + x.shape[1]
        positions = torch.arange(first, self.used)
        (q_nope, q_pe), rows = self.queries(x, positions), self.rows(x, positions)
        self.used = first
        self.write(rows)
        self.used = first + x.shape[1]
        return self.attend(q_nope, q_pe, *self.read(x.shape[1]))


class RemembersTooSoon(Base):
    """The buffer is made for the B of a call that is then refused."""

    def refuse(self, x):
        if self.buffer is None:
            width = self.layer.kv_lora_rank + self.layer.rope_dim
            self.buffer = torch.zeros(len(x), self.max_len, width, dtype=torch.float64)
        super().refuse(x)


class MemoryBeforeTheLayer(Base):
    """The buffer is made before the layer is asked, which may refuse: its B stays."""

    def refuse(self, x):
        super().refuse(x)
        if self.buffer is None:
            width = self.layer.kv_lora_rank + self.layer.rope_dim
            self.buffer = torch.zeros(len(x), self.max_len, width, dtype=torch.float64)


class AnyBatch(Base):
    """One sequence is spread over all rows."""

    def refuse(self, x):
        self.refuse_tokens(x.shape[1])
        if self.buffer is not None and len(x) not in (1, len(self.buffer)):
            raise ValueError("another number of sequences")


class BatchStartsAgain(Base):
    """Another number of sequences is taken for a new text."""

    def refuse(self, x):
        if self.buffer is not None and len(self.buffer) != len(x):
            self.buffer, self.used = None, 0
        super().refuse(x)


class ReturnsNone(Base):
    """What does not fit gives None."""

    def forward(self, x):
        return None if self.used + x.shape[1] > self.max_len else super().forward(x)


class CountsCalls(Base):
    calls = 0

    def forward(self, x):
        out = super().forward(x)
        self.calls += 1
        return out

    def __len__(self):
        return self.calls


class CountsRows(Base):
    """Tokens of all sequences together."""

    def __len__(self):
        return self.used * (1 if self.buffer is None else len(self.buffer))


# truncate.


class DropsSoMany(Base):
    """truncate(n) drops n tokens."""

    def truncate(self, length):
        super().truncate(self.used - length)


class NothingCut(Base):
    def truncate(self, length):
        if not 0 <= length <= self.used:
            raise ValueError("length")


class PositionsGoOn(Base):
    """Rows are cut, the position of the next token is not."""

    seen = 0

    def queries(self, x, positions):
        return super().queries(x, positions - self.used + self.seen)

    def rows(self, x, positions):
        rows = super().rows(x, positions - self.used + self.seen)
        self.seen += x.shape[1]
        return rows


class AnyLength(Base):
    """A longer length is taken as it is: rows that nobody wrote count as tokens."""

    def truncate(self, length):
        if not 0 <= length <= self.max_len:
            raise ValueError("length")
        self.used = length


class Clamped(Base):
    def truncate(self, length):
        self.used = min(max(length, 0), self.used)


class LongerIsAllOfIt(Base):
    """A length above what is held leaves everything as it is."""

    def truncate(self, length):
        if length < 0:
            raise ValueError("length")
        self.used = min(length, self.used)


class FromTheEnd(Base):
    """A negative length counts from the end, as a slice does."""

    def truncate(self, length):
        super().truncate(length + self.used if length < 0 else length)


class ShorterOnly(Base):
    """Cutting to what is held is refused."""

    def truncate(self, length):
        if not 0 <= length < self.used:
            raise ValueError("length")
        self.used = length


class NeverEmpty(Base):
    """Cutting to 0 is refused."""

    def truncate(self, length):
        if not 0 < length <= self.used:
            raise ValueError("length")
        self.used = length


class SharedBuffer(Base):
    """The buffer belongs to the class."""

    shared: dict = {}  # noqa: RUF012 - this is the mistake

    def write(self, rows):
        key = (len(rows), self.max_len, rows.shape[2])
        self.buffer = self.shared.setdefault(key, rows.new_zeros(key))
        super().write(rows)


MISTAKES = (
    Mistake("positions-restart", PositionsRestart, "Every call starts at position 0. Positions go on from the tokens held: len(self), len(self) + 1, ...", "token by token"),
    Mistake("keys-restart", KeysRestart, "Keys are turned as if every call started at position 0; queries are not. Both stand at len(self) and on.", "token by token"),
    Mistake("queries-restart", QueriesRestart, "Queries are turned as if every call started at position 0; keys are not. Both stand at len(self) and on.", "token by token"),
    Mistake("queries-one-later", QueriesOneLater, "Queries are turned one position later than their own keys. A token's query and key stand at the same one.", "token by token"),
    Mistake("position-by-calls", ByCalls, "The position moves on by one in each call. It moves on by T.", "chunks"),
    Mistake("first-position-for-all", FirstForAll, "All tokens of a chunk are turned at the first one's position. They stand at len(self) to len(self) + T - 1.", "chunks"),
    Mistake("queries-at-the-first", QueriesAtTheFirst, "All queries of a chunk are turned at the first one's position. Each stands at its own.", "chunks"),
    Mistake("queries-at-the-last", QueriesAtTheLast, "All queries of a chunk are turned at the last one's position. Each stands at its own.", "chunks"),
    Mistake("queries-not-turned", QueriesNotTurned, "q_pe comes from the layer not turned: rotate it at the tokens' positions.", "token by token"),
    Mistake("keys-not-turned", KeysNotTurned, "k_pe comes from the layer not turned: rotate it before it is stored.", "token by token"),
    Mistake("nothing-turned", NothingTurned, "Neither q_pe nor k_pe is turned: the layer cannot tell how far apart tokens are.", "token by token"),
    Mistake("turned-again", TurnedAgain, "k_pe is turned when it is stored, and again whenever it is read. Turn it once.", "token by token"),
    Mistake("turned-when-read", TurnedWhenRead, "k_pe is held as it came, and all S rows are turned in every call. Turn it once, before it is stored.", "each token once"),
    Mistake("latent-turned", LatentTurned, "The latent is turned too. Only q_pe and k_pe carry a position: that is why the matrices can be absorbed.", "token by token"),
    Mistake("content-turned", ContentTurned, "q_nope is turned too. Only q_pe and k_pe carry a position.", "token by token"),
    Mistake("new-tokens-only", NewTokensOnly, "Only the new tokens are read. Every query sees all that is held.", "token by token"),
    Mistake("whole-buffer", WholeBuffer, "All max_len rows are read. Only the first len(self) are tokens.", "token by token"),
    Mistake("from-slot-0", FromSlotZero, "Every call writes from row 0. New tokens go behind those held.", "token by token"),
    Mistake("one-slot-back", OneSlotBack, "New rows are written one row too early: the last token held is lost.", "token by token"),
    Mistake("positions-first", PositionsFirst, "Rows are written [c_kv, k_pe] and read [k_pe, c_kv].", "token by token"),
    Mistake("first-sequence", FirstSequence, "Every sequence gets the latents of sequence 0.", "token by token"),
    Mistake("room-of-the-first-call", RoomOfTheFirstCall, "The first chunk sets the room, later tokens push the oldest out. There is room for max_len tokens.", "token by token"),
    Mistake("all-seen", AllSeen, "A chunk's queries see tokens that come after them. Query t stands at S - T + t.", "chunks"),
    Mistake("top-left", TopLeft, "The mask begins at the first token held. The queries are the newest: query t stands at S - T + t.", "token by token"),
    Mistake("scaled-by-cached-width", ScaledByWidth, "The scale is 1/sqrt(R + Dr). It stays 1/sqrt(Dn + Dr).", "token by token"),
    Mistake("matrix-scaled-in-place", MatrixScaled, "The scale is put into layer.w_uk, again in every call. The matrices are the layer's.", "token by token"),
    Mistake("last-token-only", LastTokenOnly, "Only the last token's output comes back. Return all T.", "chunks"),
    Mistake("heads-behind-tokens", HeadsBehind, "The result is (B, T, H, Dv). Return (B, H, T, Dv).", "token by token"),
    Mistake("recomputed", Recomputed, "The latents of all tokens are made anew in every call. Hold them: each token goes through latent() once.", "each token once"),
    Mistake("latent-twice", LatentTwice, "latent() is called twice, once for each part. One call gives both.", "each token once"),
    Mistake("queries-twice", QueriesTwice, "queries() is called twice, once for each part. One call gives both.", "each token once"),
    Mistake("turned-for-each-head", TurnedForEachHead, "k_pe is turned once for every head. There is one for all of them.", "each token once"),
    Mistake("whole-rows", WholeRows, "Every head's keys and values are held, as in lesson 04. Hold c_kv and k_pe: R + Dr numbers for each token.", "memory"),
    Mistake("rotary-key-for-each-head", RotaryKeyForEachHead, "k_pe is held once for every head. All heads share one.", "memory"),
    Mistake("keys-and-values", KeysAndValues, "A latent is held for the keys and the same again for the values. One serves both: R + Dr numbers, not 2 * R + Dr.", "memory"),
    Mistake("twice-the-room", TwiceTheRoom, "The buffer has room for twice max_len tokens.", "memory"),
    Mistake("sixty-four", SixtyFour, "There is room for 64 tokens, whatever max_len is.", "memory"),
    Mistake("expanded", Expanded, "Every head's keys and values are made of all latents for each new token. Absorb the matrices, as in 8.2.", "memory", seen_in="Transformers' DeepseekV3 attention"),
    Mistake("values-expanded", ValuesExpanded, "Every head's values are made of all latents for each new token. Mix the latents, then apply w_uv.", "memory"),
    Mistake("keys-expanded", KeysExpanded, "Every head's keys are made of all latents for each new token. Put w_uk into the query.", "memory"),
    Mistake("outputs-kept", OutputsKept, "Outputs are kept too. Nothing needs them again.", "memory"),
    Mistake("never-refuses", NeverRefuses, "Tokens past the end are dropped without a word. Refuse them with ValueError before anything changes.", "full"),
    Mistake("grows", Grows, "More room is made when it is full. max_len is a promise: refuse with ValueError.", "full"),
    Mistake("drops-the-oldest", DropsTheOldest, "The oldest tokens go when it is full: another text. Refuse with ValueError.", "full"),
    Mistake("one-too-early", OneTooEarly, "The last free row is never used: max_len tokens fit.", "chunks"),
    Mistake("only-when-full", OnlyWhenFull, "Only a full cache refuses; a chunk that goes past the end is cut. All T must fit.", "full"),
    Mistake("chunk-alone", ChunkAlone, "The chunk's own length is checked. It must fit behind the tokens held.", "full"),
    Mistake("counts-first", CountsFirst, "len() moves on before the refusal, and stays there. Check first.", "full"),
    Mistake("counts-before-the-layer", CountsBeforeTheLayer, "len() moves on before the layer is asked. When the layer refuses, the tokens are not held.", "full"),
    Mistake("remembers-too-soon", RemembersTooSoon, "The B of a refused call is remembered. It is that of the first call that went through.", "full"),
    Mistake("memory-before-the-layer", MemoryBeforeTheLayer, "The buffer is made before the layer is asked. When the layer refuses, its B must not stay.", "full"),
    Mistake("any-batch", AnyBatch, "A single sequence is spread over all rows in silence. Another B than that of the first call is refused.", "full"),
    Mistake("batch-starts-again", BatchStartsAgain, "Another B starts a new text. Refuse it with ValueError, and keep what is held.", "full"),
    Mistake("returns-none", ReturnsNone, "What does not fit gives None. Raise ValueError.", "full"),
    Mistake("len-counts-calls", CountsCalls, "len() counts calls. It counts tokens.", "chunks"),
    Mistake("len-counts-rows", CountsRows, "len() counts the tokens of all sequences together. It is the length of one.", "token by token"),
    Mistake("drops-so-many", DropsSoMany, "truncate(n) drops n tokens. It keeps the first n.", "truncate"),
    Mistake("nothing-cut", NothingCut, "truncate() cuts nothing.", "truncate"),
    Mistake("positions-go-on", PositionsGoOn, "After truncate() positions go on from the tokens seen. They go on from the tokens held.", "truncate"),
    Mistake("any-length", AnyLength, "truncate() to more than is held brings back rows that were cut. Refuse it with ValueError.", "truncate"),
    Mistake("clamped", Clamped, "truncate() bends a bad length to a good one. Refuse it with ValueError.", "truncate"),
    Mistake("longer-is-all-of-it", LongerIsAllOfIt, "truncate() to more than is held does nothing. Refuse it with ValueError.", "truncate"),
    Mistake("from-the-end", FromTheEnd, "A negative length counts from the end. Refuse it with ValueError.", "truncate"),
    Mistake("shorter-only", ShorterOnly, "truncate() to what is held is refused. It is allowed, and changes nothing.", "truncate"),
    Mistake("never-empty", NeverEmpty, "truncate(0) is refused. It is allowed: a new text starts.", "truncate"),
    Mistake("forgets-batch", ForgetsBatch, "After truncate(0) another B is accepted. B is that of the first call, for good.", "truncate"),
    Mistake("shared-buffer", SharedBuffer, "The buffer belongs to the class: caches of one size write into each other. Keep it on self.", "chunks"),
)  # fmt: skip


class TwoBuffers(Base):
    """c_kv and k_pe apart, positions as a plain list."""

    def write(self, rows):
        if self.buffer is None:
            R = self.layer.kv_lora_rank
            self.buffer = rows.new_empty(len(rows), self.max_len, R)
            self.turned = rows.new_empty(len(rows), self.max_len, rows.shape[2] - R)
        end = self.used + rows.shape[1]
        self.buffer[:, self.used : end], self.turned[:, self.used : end] = rows.split(
            [self.buffer.shape[2], self.turned.shape[2]], -1
        )

    def read(self, T):
        return self.buffer[:, : self.used], self.turned[:, : self.used]


class Growing(Base):
    """Concatenated in every call; a cut is a slice, cloned."""

    def write(self, rows):
        self.buffer = rows if self.buffer is None else torch.cat((self.buffer, rows), 1)

    def truncate(self, length):
        super().truncate(length)
        if self.buffer is not None:
            self.buffer = self.buffer[:, :length].clone()


class ListOfTokens:
    """One pair for each token, and the functions' own checks."""

    def __init__(self, layer, max_len):
        self.layer, self.max_len, self.tokens, self.B = layer, max_len, [], None

    def __len__(self):
        return len(self.tokens)

    def forward(self, x):
        B, T, _ = x.shape
        if len(self.tokens) + T > self.max_len:
            raise ValueError(f"{len(self.tokens)} + {T} tokens")
        if self.B not in (None, B):
            raise ValueError(f"{B} sequences")
        positions = list(range(len(self.tokens), len(self.tokens) + T))
        q_nope, q_pe = self.layer.queries(x)
        c_kv, k_pe = self.layer.latent(x)
        q_pe, k_pe = self.layer.rotate(q_pe, positions), self.layer.rotate(k_pe, positions)
        self.B = B
        self.tokens += [(c_kv[:, t].clone(), k_pe[:, t].clone()) for t in range(T)]
        held = (torch.stack(part, 1) for part in zip(*self.tokens))
        return attend(q_nope, q_pe, *held, self.layer.w_uk, self.layer.w_uv)

    def truncate(self, length):
        if length < 0 or length > len(self.tokens):
            raise ValueError(f"{length} of {len(self.tokens)}")
        del self.tokens[length:]


class ExplicitPrompts(Base):
    """Prompts make keys and values, as servers do; a single new token does not."""

    def attend(self, q_nope, q_pe, c_kv, k_pe):
        how = attend if q_nope.shape[2] == 1 else attend_explicitly
        return how(q_nope, q_pe, c_kv, k_pe, self.layer.w_uk, self.layer.w_uv)


class FromOne(Base):
    """Positions from 1 on: only distances matter."""

    def queries(self, x, positions):
        return super().queries(x, positions + 1)

    def rows(self, x, positions):
        return super().rows(x, positions + 1)


class Float32(Base):
    """Held in single precision, and the matrices kept in a form of their own."""

    def __init__(self, layer, max_len):
        super().__init__(layer, max_len)
        self.w_uk, self.w_uv = layer.w_uk.float(), layer.w_uv.float()

    def rows(self, x, positions):
        return super().rows(x, positions).float()

    def attend(self, q_nope, q_pe, c_kv, k_pe):
        return attend(q_nope.float(), q_pe.float(), c_kv, k_pe, self.w_uk, self.w_uv)


class TurnedTogether(Base):
    """Queries and the key are turned in one call, the key as one more head; everything is checked before."""

    def forward(self, x):
        self.refuse(x)
        positions = torch.arange(self.used, self.used + x.shape[1])
        (q_nope, q_pe), (c_kv, k_pe) = self.layer.queries(x), self.layer.latent(x)
        turned = self.layer.rotate(torch.cat((k_pe[:, None], q_pe), 1), positions)
        self.write(torch.cat((c_kv, turned[:, 0]), -1))
        self.used += x.shape[1]
        return self.attend(q_nope, turned[:, 1:], *self.read(x.shape[1]))


VARIANTS = (
    Variant("one buffer", Base),
    Variant("two buffers", TwoBuffers),
    Variant("concatenated", Growing),
    Variant("a list of tokens", ListOfTokens),
    Variant("explicit for prompts", ExplicitPrompts),
    Variant("positions from 1", FromOne),
    Variant("float32 inside", Float32),
    Variant("turned together", TurnedTogether),
)
