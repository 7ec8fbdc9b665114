"""Multi-head latent attention: one short row for each token, from which every head makes its key and its value.

Letters: B sequences, T new tokens (queries), S tokens held, H heads, R = kv_lora_rank, the width of the latent c_kv;
Dn head dim without position, Dr head dim of the rotary part k_pe, Dv head dim of values.

The key of head h is concat(w_uk[h] @ c_kv, k_pe), its value w_uv[h] @ c_kv. Two functions give the same numbers: one
makes these rows, the other never does.

Source: DeepSeek-AI 2024 (DeepSeek-V2).
"""

from __future__ import annotations

import torch


def explicit_attend(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    c_kv: torch.Tensor,
    k_pe: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
) -> torch.Tensor:
    """Attention over keys and values that are worked out again for all S tokens and all heads.

    q_nope: (B, H, T, Dn), q_pe: (B, H, T, Dr), turned already. c_kv: (B, S, R), k_pe: (B, S, Dr), turned already and
    shared by all heads. w_uk: (H, Dn, R), w_uv: (H, Dv, R). The T queries are the newest of the S tokens: query t sees
    the positions up to S - T + t. Returns (B, H, T, Dv).
    """
    k_nope = torch.einsum("bsr,hdr->bhsd", c_kv, w_uk)  # (B, H, S, Dn)
    v = torch.einsum("bsr,hdr->bhsd", c_kv, w_uv)  # (B, H, S, Dv)
    shared = k_pe[:, None].expand(-1, k_nope.shape[1], -1, -1)  # (B, H, S, Dr)
    q, k = torch.cat((q_nope, q_pe), dim=-1), torch.cat((k_nope, shared), dim=-1)  # (B, H, T or S, Dn + Dr)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # (B, H, T, S)
    return _shares(scores) @ v


def absorbed_attend(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    c_kv: torch.Tensor,
    k_pe: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
) -> torch.Tensor:
    """The same numbers as `explicit_attend`, and no key or value of any head is made.

    q . (w_uk @ c) = (w_uk^T q) . c: the matrix goes to the query's side, of which there are T and not S. The mixture of
    values is w_uv @ (mixture of latents): the other matrix comes last. What all H heads read are the latents alone.

    q_nope (B, H, T, Dn), q_pe (B, H, T, Dr), c_kv (B, S, R), k_pe (B, S, Dr), w_uk (H, Dn, R) and w_uv (H, Dv, R) as
    there; returns (B, H, T, Dv).
    The scale stays 1/sqrt(Dn + Dr): the scores are the same scores, whatever width they come from.

    >>> one = torch.ones(1, 1, 1, 1)  # B = H = T = Dn = Dr = 1
    >>> c_kv, k_pe = torch.tensor([[[1.0, 3.0]]]), torch.zeros(1, 1, 1)  # one token: all weight is on it
    >>> w_uk, w_uv = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 2.0]]])
    >>> [f(one, one, c_kv, k_pe, w_uk, w_uv).item() for f in (explicit_attend, absorbed_attend)]
    [6.0, 6.0]
    """
    B, H, T, Dn = q_nope.shape
    q_latent = torch.einsum("bhtd,hdr->bhtr", q_nope, w_uk)  # (B, H, T, R)
    # All heads read the same rows, so they become more queries of one head: nothing is repeated for them.
    rows = torch.cat((q_latent, q_pe), dim=-1).flatten(1, 2)  # (B, H*T, R + Dr)
    scores = rows @ torch.cat((c_kv, k_pe), dim=-1).transpose(-1, -2)  # (B, H*T, S)
    scores = scores.reshape(B, H, T, -1) * (Dn + q_pe.shape[-1]) ** -0.5  # (B, H, T, S)
    mixed = _shares(scores).flatten(1, 2) @ c_kv  # (B, H*T, R)
    return torch.einsum("bhtr,hdr->bhtd", mixed.reshape(B, H, T, -1), w_uv)  # (B, H, T, Dv)


def _shares(scores: torch.Tensor) -> torch.Tensor:
    """Softmax of (B, H, T, S) where each of the T newest tokens sees itself and what was before it."""
    T, S = scores.shape[-2:]
    seen = torch.arange(S, device=scores.device) <= torch.arange(S - T, S, device=scores.device)[:, None]  # (T, S)
    return scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
