"""The lessons, in teaching order: their exercises, what they introduce, and what answers them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lesson:
    """One lesson of the course."""

    slug: str  # "01-toy-cache": the name of its source, its folder and its notebook
    title: str
    points: int  # declared here, and equal to the sum over its exercises
    exercises: tuple[str, ...]
    introduces: tuple[str, ...]  # kvlib modules that a lesson may import from here on
    answers: tuple[str, ...]  # kvlib modules that hold an answer to one of its exercises

    @property
    def number(self) -> int:
        """The lesson's number: 1 for "01-toy-cache"."""
        return int(self.slug.split("-")[0])


LESSONS: tuple[Lesson, ...] = (
    Lesson(
        slug="00-start-here",
        title="Start here",
        points=2,
        exercises=("0.1",),
        introduces=("kvlib.machine",),
        answers=("kvlib.attention",),
    ),
    Lesson(
        slug="01-toy-cache",
        title="A cache you can check by eye",
        points=12,
        exercises=("1.1", "1.2", "1.3"),
        introduces=("kvlib.attention", "kvlib.counters", "kvlib.counts", "kvlib.plots", "kvlib.toy", "kvlib.widgets"),
        answers=("kvlib.attention", "kvlib.counts", "kvlib.toy"),
    ),
    Lesson(
        slug="02-numpy-cache",
        title="A real decoder, in NumPy",
        points=20,
        exercises=("2.1", "2.2", "2.3", "2.4"),
        introduces=("kvlib.decoder", "kvlib.recompute", "kvlib.numpy_cache"),
        answers=("kvlib.numpy_cache",),
    ),
    Lesson(
        slug="03-memory-and-capacity",
        title="Memory and capacity",
        points=29,
        exercises=("3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
        introduces=("kvlib.sizing", "kvlib.sizing.gpus", "kvlib.sizing.models", "kvlib.plots_sizing", "kvlib.cli"),
        answers=(
            "kvlib.cli",
            "kvlib.sizing.capacity",
            "kvlib.sizing.config",
            "kvlib.sizing.kv",
            "kvlib.sizing.latency",
            "kvlib.sizing.layers",
            "kvlib.sizing.quantised",
            "kvlib.sizing.roofline",
            "kvlib.sizing.units",
        ),
    ),
    Lesson(
        slug="04-torch-gqa-cache",
        title="A cache for grouped heads, in PyTorch",
        points=27,
        exercises=("4.1", "4.2", "4.3", "4.4", "4.5", "4.6"),
        introduces=(
            "kvlib.transformer",
            "kvlib.recompute_gqa",
            "kvlib.gqa",
            "kvlib.gqa_cache",
            "kvlib.generate",
            "kvlib.plots_cache",
            "kvlib.minimal_cache",
        ),
        answers=("kvlib.gqa", "kvlib.gqa_cache", "kvlib.generate", "kvlib.find_the_bug"),
    ),
    Lesson(
        slug="05-rectangular-masks",
        title="Rectangular masks",
        points=35,
        exercises=("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8"),
        introduces=(
            "kvlib.masks",
            "kvlib.rope",
            "kvlib.attend_chunk",
            "kvlib.prefill",
            "kvlib.ragged_cache",
            "kvlib.padding",
            "kvlib.rolling_cache",
            "kvlib.speculative",
            "kvlib.plots_mask",
        ),
        # The decoder of lesson 04 and what runs it are built on the mask and the rotation.
        answers=(
            "kvlib.masks",
            "kvlib.rope",
            "kvlib.attend_chunk",
            "kvlib.prefill",
            "kvlib.ragged_cache",
            "kvlib.padding",
            "kvlib.rolling_cache",
            "kvlib.speculative",
            "kvlib.transformer",
            "kvlib.generate",
        ),
    ),
    Lesson(
        slug="06-paging",
        title="Paging",
        points=44,
        exercises=("6.1", "6.2", "6.3", "6.4", "6.5", "6.6", "6.7", "6.8"),
        introduces=(
            "kvlib.block_allocator",
            "kvlib.block_tables",
            "kvlib.paged_attend",
            "kvlib.paged_cache",
            "kvlib.paged_layers",
            "kvlib.decode_plan",
            "kvlib.attend_in_place",
            "kvlib.shared_tables",
            "kvlib.prefix_index",
            "kvlib.serve",
            "kvlib.serving",
            "kvlib.utilisation",
            "kvlib.plots_paging",
        ),
        answers=(
            "kvlib.block_allocator",
            "kvlib.block_tables",
            "kvlib.paged_attend",
            "kvlib.paged_cache",
            "kvlib.paged_layers",
            "kvlib.decode_plan",
            "kvlib.attend_in_place",
            "kvlib.shared_tables",
            "kvlib.prefix_index",
            "kvlib.serve",
            "kvlib.serving",  # it is built on them
        ),
    ),
    Lesson(
        slug="07-fp8-on-a-gpu",
        title="Fewer bits, and a GPU",
        points=30,
        exercises=("7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7"),
        introduces=(
            "kvlib.fp8",
            "kvlib.int_quantiser",
            "kvlib.quantised_cache",
            "kvlib.error_budget",
            "kvlib.rescale",
            "kvlib.stored",
            "kvlib.gguf",
            "kvlib.smollm2",
            "kvlib.time_generation",
            "kvlib.simulated_device",
            "kvlib.plots_fp8",
            "kvlib.gpu",
        ),
        answers=(
            "kvlib.fp8",
            "kvlib.int_quantiser",
            "kvlib.quantised_cache",
            "kvlib.error_budget",
            "kvlib.rescale",
            "kvlib.time_generation",
        ),
    ),
    Lesson(
        slug="08-mla-and-sharing",
        title="Smaller by design",
        points=22,
        exercises=("8.1", "8.2", "8.3", "8.4", "8.5"),
        introduces=(
            "kvlib.mla",
            "kvlib.mla_layer",
            "kvlib.latent_cache",
            "kvlib.rope_fold",
            "kvlib.shared_layers",
            "kvlib.published",
            "kvlib.compare_results",
            "kvlib.plots_mla",
        ),
        answers=("kvlib.mla", "kvlib.latent_cache", "kvlib.shared_layers", "kvlib.compare_results"),
    ),
    Lesson(
        slug="09-forgetting-and-identity",
        title="Forgetting, and whose cache it is",
        points=23,
        exercises=("9.1", "9.2", "9.3", "9.4", "9.5"),
        introduces=(
            "kvlib.sink_cache",
            "kvlib.move_keys",
            "kvlib.heavy_hitters",
            "kvlib.tiny_model",
            "kvlib.needles",
            "kvlib.forgetting",
            "kvlib.lora",
            "kvlib.adapter_cache",
            "kvlib.reusable",
            "kvlib.plots_forgetting",
        ),
        answers=(
            "kvlib.sink_cache",
            "kvlib.move_keys",
            "kvlib.heavy_hitters",
            "kvlib.adapter_cache",
            "kvlib.reusable",
        ),
    ),
    Lesson(
        slug="10-a-real-model",
        title="A real model",
        points=18,
        exercises=("10.1", "10.2", "10.3", "10.4"),
        introduces=(
            "kvlib.cache_layer",
            "kvlib.layer_caches",
            "kvlib.transformers_bridge",
            "kvlib.hub_model",
            "kvlib.compare_runs",
            "kvlib.chat_session",
            "kvlib.plots_real_model",
        ),
        # The model's file is read with the answer of 10.1.
        answers=("kvlib.smollm2", "kvlib.cache_layer", "kvlib.compare_runs", "kvlib.chat_session"),
    ),
    Lesson(
        slug="11-a-decode-kernel",
        title="A decode kernel",
        points=19,
        exercises=("11.1", "11.2", "11.3", "11.4"),
        introduces=(
            "kvlib.online_softmax",
            "kvlib.split_attend",
            "kvlib.tiles",
            "kvlib.tile_values",
            "kvlib.attend_tiles",
            "kvlib.gpu.own_kernel",
            "kvlib.gpu.own_process",
            "kvlib.plots_kernel",
        ),
        answers=("kvlib.online_softmax", "kvlib.split_attend", "kvlib.attend_tiles"),
    ),
    Lesson(
        slug="12-a-server",
        title="A server",
        points=21,
        exercises=("12.1", "12.2", "12.3"),
        introduces=(
            "kvlib.stream",
            "kvlib.plan_step",
            "kvlib.server",
            "kvlib.server_engine",
            "kvlib.request_stream",
            "kvlib.service_report",
            "kvlib.plots_server",
        ),
        answers=("kvlib.stream", "kvlib.plan_step", "kvlib.server"),
    ),
)
