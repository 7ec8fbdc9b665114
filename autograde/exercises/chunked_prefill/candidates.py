"""Wrong and right ways to push a prompt through in chunks. Each mistake changes one thing in `prefill`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _refuse(chunk_size):
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")


def prefill(step, tokens, chunk_size):
    _refuse(chunk_size)
    T = tokens.shape[1]
    return torch.cat([step(tokens[:, i : i + chunk_size]) for i in range(0, T, chunk_size)], dim=1)


# Tokens lost, or pushed twice.


def short_chunk_dropped(step, tokens, chunk_size):
    _refuse(chunk_size)
    whole = tokens.shape[1] // chunk_size * chunk_size
    return prefill(step, tokens[:, :whole], chunk_size) if whole else torch.zeros(len(tokens), 0, 1)


def last_token_dropped(step, tokens, chunk_size):
    """range(0, T - 1, chunk_size): a last chunk of one token is never reached."""
    _refuse(chunk_size)
    T = tokens.shape[1]
    return torch.cat([step(tokens[:, i : i + chunk_size]) for i in range(0, max(T - 1, 1), chunk_size)], dim=1)


def last_token_kept_back(step, tokens, chunk_size):
    """The prompt without its last token, which is kept for the first decode step."""
    return prefill(step, tokens[:, :-1], chunk_size)


def first_token_skipped(step, tokens, chunk_size):
    return prefill(step, tokens[:, 1:], chunk_size)


def chunks_overlap(step, tokens, chunk_size):
    """Every chunk begins with the last token of the one before."""
    _refuse(chunk_size)
    T = tokens.shape[1]
    parts = [step(tokens[:, max(i - 1, 0) : i + chunk_size]) for i in range(0, T, chunk_size)]
    return torch.cat([part[:, min(n, 1) :] for n, part in enumerate(parts)], dim=1)


def all_so_far(step, tokens, chunk_size):
    """Every call gets the prompt up to there; the new rows are kept."""
    _refuse(chunk_size)
    T, parts = tokens.shape[1], []
    for i in range(0, T, chunk_size):
        parts.append(step(tokens[:, : i + chunk_size])[:, i:])
    return torch.cat(parts, dim=1)


def last_chunk_moved_back(step, tokens, chunk_size):
    """The last chunk starts earlier, so that it is as long as the others."""
    _refuse(chunk_size)
    T, parts = tokens.shape[1], []
    for i in range(0, T, chunk_size):
        begin = max(min(i, T - chunk_size), 0)
        parts.append(step(tokens[:, begin : begin + chunk_size])[:, i - begin :])
    return torch.cat(parts, dim=1)


def padded(step, tokens, chunk_size):
    """The last chunk is filled up with token 0, and the rows of the filling are cut off."""
    _refuse(chunk_size)
    T = tokens.shape[1]
    filled = torch.nn.functional.pad(tokens, (0, -T % chunk_size))
    return prefill(step, filled, chunk_size)[:, :T]


def padded_all_returned(step, tokens, chunk_size):
    _refuse(chunk_size)
    return prefill(step, torch.nn.functional.pad(tokens, (0, -tokens.shape[1] % chunk_size)), chunk_size)


def padded_in_front(step, tokens, chunk_size):
    _refuse(chunk_size)
    filling = -tokens.shape[1] % chunk_size
    return prefill(step, torch.nn.functional.pad(tokens, (filling, 0)), chunk_size)[:, filling:]


# What is returned.


def last_logits(step, tokens, chunk_size):
    return prefill(step, tokens, chunk_size)[:, -1]


def last_of_each_chunk(step, tokens, chunk_size):
    _refuse(chunk_size)
    T = tokens.shape[1]
    return torch.cat([step(tokens[:, i : i + chunk_size])[:, -1:] for i in range(0, T, chunk_size)], dim=1)


def last_chunk_only(step, tokens, chunk_size):
    _refuse(chunk_size)
    for i in range(0, tokens.shape[1], chunk_size):
        logits = step(tokens[:, i : i + chunk_size])
    return logits


def first_chunk_only(step, tokens, chunk_size):
    _refuse(chunk_size)
    return step(tokens[:, :chunk_size])


def best_tokens(step, tokens, chunk_size):
    return prefill(step, tokens, chunk_size).argmax(dim=-1)


def probabilities(step, tokens, chunk_size):
    return prefill(step, tokens, chunk_size).softmax(dim=-1)


def along_the_batch(step, tokens, chunk_size):
    """torch.cat without dim."""
    _refuse(chunk_size)
    T = tokens.shape[1]
    chunks = [step(tokens[:, i : i + chunk_size]) for i in range(0, T, chunk_size)]
    if len({chunk.shape[1] for chunk in chunks}) > 1:
        raise RuntimeError("Sizes of tensors must match except in dimension 0.")
    return torch.cat(chunks)


def put_together_backwards(step, tokens, chunk_size):
    _refuse(chunk_size)
    T = tokens.shape[1]
    return torch.cat([step(tokens[:, i : i + chunk_size]) for i in range(0, T, chunk_size)][::-1], dim=1)


def list_of_chunks(step, tokens, chunk_size):
    _refuse(chunk_size)
    return [step(tokens[:, i : i + chunk_size]) for i in range(0, tokens.shape[1], chunk_size)]


# The calls.


def from_the_end(step, tokens, chunk_size):
    """The last chunk goes in first."""
    _refuse(chunk_size)
    parts = [step(tokens[:, i : i + chunk_size]) for i in reversed(range(0, tokens.shape[1], chunk_size))]
    return torch.cat(parts[::-1], dim=1)


def all_at_once(step, tokens, chunk_size):
    _refuse(chunk_size)
    return step(tokens)


def so_many_chunks(step, tokens, chunk_size):
    """torch.chunk takes the number of chunks, torch.split their size."""
    _refuse(chunk_size)
    return torch.cat([step(chunk) for chunk in tokens.chunk(chunk_size, dim=1)], dim=1)


def one_too_large(step, tokens, chunk_size):
    _refuse(chunk_size)
    return prefill(step, tokens, chunk_size + 1)


def rest_joined(step, tokens, chunk_size):
    """A short rest goes in with the chunk before it."""
    _refuse(chunk_size)
    T = tokens.shape[1]
    whole = max(T // chunk_size, 1)
    ends = [*range(chunk_size, whole * chunk_size, chunk_size), T]
    return torch.cat([step(tokens[:, a:b]) for a, b in zip([0, *ends], ends)], dim=1)


def one_token_at_a_time(step, tokens, chunk_size):
    _refuse(chunk_size)
    return prefill(step, tokens, 1)


def one_too_small(step, tokens, chunk_size):
    _refuse(chunk_size)
    return prefill(step, tokens, max(chunk_size - 1, 1))


def rest_one_by_one(step, tokens, chunk_size):
    """Whole chunks, then the rest token by token."""
    _refuse(chunk_size)
    whole = tokens.shape[1] // chunk_size * chunk_size
    parts = [prefill(step, tokens[:, :whole], chunk_size)] if whole else []
    return torch.cat([*parts, *(step(tokens[:, i : i + 1]) for i in range(whole, tokens.shape[1]))], dim=1)


def last_token_alone(step, tokens, chunk_size):
    """All but the last token in chunks, then that one."""
    _refuse(chunk_size)
    parts = [prefill(step, tokens[:, :-1], chunk_size)] if tokens.shape[1] > 1 else []
    return torch.cat([*parts, step(tokens[:, -1:])], dim=1)


def empty_call(step, tokens, chunk_size):
    """range(0, T + 1, chunk_size): when all chunks are whole, an empty one follows."""
    _refuse(chunk_size)
    T = tokens.shape[1]
    return torch.cat([step(tokens[:, i : i + chunk_size]) for i in range(0, T + 1, chunk_size)], dim=1)


def last_token_again(step, tokens, chunk_size):
    """Once more, to get the next token's logits."""
    logits = prefill(step, tokens, chunk_size)
    step(tokens[:, -1:])
    return logits


def split_by_sequence(step, tokens, chunk_size):
    """split without dim: over the batch."""
    _refuse(chunk_size)
    return torch.cat([step(chunk) for chunk in tokens.split(chunk_size)], dim=0)


# Refusals.


def no_refusal(step, tokens, chunk_size):
    """range() itself refuses a step of 0, and never runs for one below."""
    parts = [step(tokens[:, i : i + chunk_size]) for i in range(0, tokens.shape[1], chunk_size)]
    return torch.cat(parts, dim=1) if parts else tokens[:, :0]


def at_least_one(step, tokens, chunk_size):
    return prefill(step, tokens, max(chunk_size, 1))


def without_its_sign(step, tokens, chunk_size):
    return prefill(step, tokens, abs(chunk_size) or 1)


def no_limit(step, tokens, chunk_size):
    """0 and less mean: all at once."""
    return prefill(step, tokens, chunk_size if chunk_size > 0 else tokens.shape[1])


def zero_let_through(step, tokens, chunk_size):
    """Refuses what is below 0, and takes 0 for no limit."""
    if chunk_size < 0:
        raise ValueError("negative")
    return prefill(step, tokens, chunk_size or tokens.shape[1])


def one_refused(step, tokens, chunk_size):
    if chunk_size <= 1:
        raise ValueError("chunk_size")
    return prefill(step, tokens, chunk_size)


def larger_than_the_prompt_refused(step, tokens, chunk_size):
    if chunk_size > tokens.shape[1]:
        raise ValueError("chunk_size")
    return prefill(step, tokens, chunk_size)


def nothing_for_zero(step, tokens, chunk_size):
    return None if chunk_size < 1 else prefill(step, tokens, chunk_size)


def refused_after_a_step(step, tokens, chunk_size):
    """The first token has gone in before the size is looked at."""
    if chunk_size < 1:
        step(tokens[:, :1])
    return prefill(step, tokens, chunk_size)


def at_most_eight(step, tokens, chunk_size):
    _refuse(chunk_size)
    return prefill(step, tokens, min(chunk_size, 8))


def sizes_of_the_first_try(step, tokens, chunk_size):
    """The batch and the vocabulary that one run had."""
    _refuse(chunk_size)
    out = torch.zeros(3, tokens.shape[1], 11, dtype=torch.float64)
    for i in range(0, tokens.shape[1], chunk_size):
        out[:, i : i + chunk_size] = step(tokens[:, i : i + chunk_size])
    return out


MISTAKES = (
    Mistake("short-chunk-dropped", short_chunk_dropped, "The rest that does not fill a chunk is dropped. Push it through as a shorter one.", "a shorter last chunk"),
    Mistake("last-token-dropped", last_token_dropped,
            "A last chunk of one token is never reached: the range ends at T - 1. It ends at T.", "whole chunks"),
    Mistake("last-token-kept-back", last_token_kept_back, "The prompt's last token is kept back. Its logits say what comes next: push all T.", "one chunk"),
    Mistake("first-token-skipped", first_token_skipped, "The first token is skipped: chunks start at 0.", "one chunk"),
    Mistake("chunks-overlap", chunks_overlap, "Chunks overlap by a token, which `step` then keeps twice. Each chunk starts where the last one ended.", "whole chunks"),
    Mistake("all-so-far", all_so_far, "Every call gets the whole prompt up to there. `step` keeps what it was given: pass the new tokens only.", "whole chunks"),
    Mistake("last-chunk-moved-back", last_chunk_moved_back,
            "The last chunk starts earlier, to be as long as the others: tokens go through twice. Let it be shorter.", "a shorter last chunk"),
    Mistake("padded", padded, "The last chunk is filled up, and `step` keeps the filling as tokens. Let it be shorter.", "calls",
            "servers that pad prompts to whole chunks without a mask"),
    Mistake("padded-all-returned", padded_all_returned, "The last chunk is filled up, and the filling's logits come back too.", "a shorter last chunk"),
    Mistake("padded-in-front", padded_in_front, "The prompt is filled up in front: all its tokens then stand at later positions.", "a shorter last chunk"),
    Mistake("last-logits", last_logits, "Only the last position's logits come back. Return all T.", "one chunk"),
    Mistake("last-of-each-chunk", last_of_each_chunk, "One row comes back for each chunk, the last. Return all T rows.", "one chunk"),
    Mistake("last-chunk-only", last_chunk_only, "Only the last chunk's logits come back. Keep those of every chunk.", "whole chunks"),
    Mistake("first-chunk-only", first_chunk_only, "Only the first chunk is pushed through.", "whole chunks"),
    Mistake("best-tokens", best_tokens, "The best tokens come back. Return the logits.", "one chunk"),
    Mistake("probabilities", probabilities, "These are probabilities. Return the logits as `step` gave them.", "one chunk"),
    Mistake("along-the-batch", along_the_batch, "The chunks are joined along the batch. Join them along T: dim=1.", "whole chunks"),
    Mistake("put-together-backwards", put_together_backwards, "The chunks' logits are joined in reverse order.", "whole chunks"),
    Mistake("list-of-chunks", list_of_chunks, "A list of chunks comes back. Join them along T: torch.cat(chunks, dim=1).", "whole chunks"),
    Mistake("from-the-end", from_the_end, "The last chunk goes in first. `step` keeps tokens in the order that it gets them.", "whole chunks"),
    Mistake("all-at-once", all_at_once, "The whole prompt goes in with one call. No call may have more than chunk_size tokens.", "whole chunks"),
    Mistake("so-many-chunks", so_many_chunks, "The prompt is cut into chunk_size chunks. It is to be cut into chunks of that size: split, not chunk.", "whole chunks"),
    Mistake("one-too-large", one_too_large, "Chunks have one token more than chunk_size.", "whole chunks"),
    Mistake("rest-joined", rest_joined, "The rest goes in with the chunk before it, which is then larger than chunk_size.", "calls"),
    Mistake("one-token-at-a-time", one_token_at_a_time, "Tokens go in one by one. Use as few calls as chunk_size allows.", "calls"),
    Mistake("one-too-small", one_too_small, "Chunks have one token fewer than chunk_size, so there are more calls than needed.", "calls"),
    Mistake("rest-one-by-one", rest_one_by_one, "The rest goes in token by token. It is one shorter chunk.", "calls"),
    Mistake("last-token-alone", last_token_alone, "The last token has a call of its own. It may go in with its chunk.", "calls"),
    Mistake("empty-call", empty_call, "When the last chunk is whole, an empty one follows. The range ends at T, not at T + 1.", "calls"),
    Mistake("last-token-again", last_token_again, "The last token goes in a second time, and `step` keeps it twice. Its logits are there already.", "calls"),
    Mistake("split-by-sequence", split_by_sequence, "The batch is cut up, not the prompt: split(chunk_size, dim=1).", "whole chunks"),
    Mistake("no-refusal", no_refusal, "A chunk_size below 0 is not refused: the loop never runs, and what is returned is empty. Raise ValueError first.", "refusals"),
    Mistake("at-least-one", at_least_one, "A chunk_size below 1 is taken for 1. Refuse it with ValueError.", "refusals"),
    Mistake("without-its-sign", without_its_sign, "A negative chunk_size loses its sign. Refuse it with ValueError.", "refusals"),
    Mistake("no-limit", no_limit, "A chunk_size below 1 is taken for no limit. Refuse it with ValueError.", "refusals"),
    Mistake("zero-let-through", zero_let_through, "A chunk_size of 0 is taken for no limit. Refuse it with ValueError.", "refusals"),
    Mistake("one-refused", one_refused, "A chunk_size of 1 is refused. It is the smallest that is allowed.", "whole chunks"),
    Mistake("larger-than-the-prompt-refused", larger_than_the_prompt_refused,
            "A chunk_size larger than the prompt is refused. The prompt is then one shorter chunk.", "a shorter last chunk"),
    Mistake("nothing-for-zero", nothing_for_zero, "A chunk_size below 1 gives None. Raise ValueError.", "refusals"),
    Mistake("refused-after-a-step", refused_after_a_step,
            "The bad chunk_size is refused, but a token has gone in already. Check before the first step.", "refusals"),
    Mistake("at-most-eight", at_most_eight, "Chunks have 8 tokens at most, whatever chunk_size is. Larger ones save calls.", "calls"),
    Mistake("sizes-of-one-model", sizes_of_the_first_try,
            "The sizes of one batch and one vocabulary are written into the code. Take them from what `step` returns.", "calls"),
)  # fmt: skip


def with_split(step, tokens, chunk_size):
    if not chunk_size > 0:
        raise ValueError("chunk_size")
    return torch.cat([*map(step, torch.split(tokens, chunk_size, dim=1))], dim=1)


def a_while_loop(step, tokens, chunk_size):
    _refuse(chunk_size)
    rest, logits = tokens, None
    while rest.shape[1]:
        new = step(rest[:, :chunk_size])
        logits = new if logits is None else torch.cat((logits, new), dim=1)
        rest = rest[:, chunk_size:]
    return logits


def balanced(step, tokens, chunk_size):
    """As few chunks as possible, of nearly one length."""
    _refuse(chunk_size)
    count = -(-tokens.shape[1] // chunk_size)
    return torch.cat([step(chunk) for chunk in tokens.tensor_split(count, dim=1)], dim=1)


def short_chunk_first(step, tokens, chunk_size):
    _refuse(chunk_size)
    T = tokens.shape[1]
    first = T % chunk_size or chunk_size
    ends = range(first, T + 1, chunk_size)
    return torch.cat([step(tokens[:, a:b]) for a, b in zip([0, *ends], ends)], dim=1)


def written_in_place(step, tokens, chunk_size):
    """A buffer, made when the vocabulary is known."""
    _refuse(chunk_size)
    (B, T), out = tokens.shape, None
    for i in range(0, T, chunk_size):
        logits = step(tokens[:, i : i + chunk_size])
        out = torch.empty(B, T, logits.shape[2], dtype=logits.dtype) if out is None else out
        out[:, i : i + logits.shape[1]] = logits
    return out


def lists(step, tokens, chunk_size):
    _refuse(chunk_size)
    rows = [[] for _ in tokens]
    for i in range(0, tokens.shape[1], chunk_size):
        for row, new in zip(rows, step(tokens[:, i : i + chunk_size]).tolist()):
            row += new
    return rows


def recursive(step, tokens, chunk_size):
    _refuse(chunk_size)
    logits, rest = step(tokens[:, :chunk_size]), tokens[:, chunk_size:]
    return torch.cat((logits, recursive(step, rest, chunk_size)), dim=1) if rest.numel() else logits


VARIANTS = (
    Variant("slices", prefill),
    Variant("split", with_split),
    Variant("a while loop", a_while_loop),
    Variant("balanced chunks", balanced),
    Variant("the short chunk first", short_chunk_first),
    Variant("written in place", written_in_place),
    Variant("lists", lists),
    Variant("recursion", recursive),
)
