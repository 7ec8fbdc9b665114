"""The exercises, one folder each: its stages, its mistakes, its variants."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from autograde.exercise import Exercise

MODULES = {
    "0.1": "softmax",
    "1.1": "attend",
    "1.2": "count_positions",
    "1.3": "toy_cache",
    "2.1": "kv_cache",
    "2.2": "block_step",
    "2.3": "cached_decoder",
    "2.4": "write_the_test",
    "3.1": "kv_bytes",
    "3.2": "size_in_bytes",
    "3.3": "read_config",
    "3.4": "layer_bytes",
    "3.5": "quantised_row",
    "3.6": "capacity",
    "3.7": "decode_step",
    "3.8": "roofline",
    "3.9": "latencies",
    "4.1": "kv_head",
    "4.2": "gqa_attend",
    "4.3": "gqa_cache",
    "4.4": "cached_forward",
    "4.5": "mean_pool",
    "4.6": "find_the_bug",
    "5.1": "visible",
    "5.2": "rope",
    "5.3": "attend_chunk",
    "5.4": "chunked_prefill",
    "5.5": "ragged_cache",
    "5.6": "ragged_attend",
    "5.7": "ring_cache",
    "5.8": "speculative",
    "6.1": "block_allocator",
    "6.2": "block_tables",
    "6.3": "write_slots",
    "6.4": "paged_attend",
    "6.5": "paged_cache",
    "6.6": "shared_tables",
    "6.7": "prefix_index",
    "6.8": "serve",
    "7.1": "to_fp8",
    "7.2": "scales",
    "7.3": "quantised_cache",
    "7.4": "int_quantiser",
    "7.5": "error_budget",
    "7.6": "rescale",
    "7.7": "time_generation",
    "8.1": "explicit_attend",
    "8.2": "absorbed_attend",
    "8.3": "latent_cache",
    "8.4": "shared_layers",
    "8.5": "compare_results",
    "9.1": "sink_cache",
    "9.2": "move_keys",
    "9.3": "heavy_hitters",
    "9.4": "reusable",
    "9.5": "adapter_cache",
    "10.1": "half_split",
    "10.2": "cache_layer",
    "10.3": "compare_runs",
    "10.4": "chat_session",
    "11.1": "online_attend",
    "11.2": "partial_attend",
    "11.3": "merge_parts",
    "11.4": "attend_tiles",
    "12.1": "stream",
    "12.2": "plan_step",
    "12.3": "run_server",
}


@cache
def load() -> dict[str, Exercise]:
    """Every exercise by its id, in teaching order."""
    exercises = [import_module(f"autograde.exercises.{module}").EXERCISE for module in MODULES.values()]
    return {exercise.id: exercise for exercise in exercises}
