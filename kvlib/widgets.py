"""Pictures with sliders. Where ipywidgets is missing, the plain picture comes instead.

ipywidgets is imported only when a slider is made. Each widget also leaves its picture, for a page that cannot run it.
By keyboard: Tab to a slider, then the arrow keys; Home and End go to its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kvlib import plots, plots_cache, plots_paging
from kvlib.figure import as_html, described, new_figure, png

if TYPE_CHECKING:
    from ipywidgets import VBox
    from matplotlib.figure import Figure


def explore_rows(max_tokens: int = 8) -> VBox | Figure:
    """Step through `plots.draw_rows`: a slider for the number of steps, and the picture so far below it.

    Returns the picture of all steps where ipywidgets is missing.

    >>> type(explore_rows(4)).__name__ in ("VBox", "Figure")
    True
    """
    return _stepper(max_tokens, lambda upto: plots.draw_rows(max_tokens, upto=upto))


def explore(make_cache: Callable[..., Any], chunks: Sequence[int] = (3, 1, 1, 1, 2, 1), max_len: int = 8) -> Any:
    """Step through prefill and decode with a cache class of your own, and see which token's rows lie where.

    make_cache: the class of lesson 04, `GQACache`, or a function that makes one from the same arguments. chunks: how
    many tokens come at each step; one that does not fit shows whether the cache refuses it.
    Returns a slider with the picture below it, or the whole picture where ipywidgets is missing.
    """
    frames = plots_cache.film_cache(make_cache, max_len=max_len, chunks=chunks)
    return _stepper(len(frames), lambda upto: plots_cache.draw_film(frames, upto))


def explore_ring(make_ring: Callable[..., Any], window: int = 4, chunks: Sequence[int] = (3, 1, 1, 4, 1)) -> Any:
    """The same for a ring buffer of your own: the class of lesson 05, `RingCache`."""
    frames = plots_cache.film_ring(make_ring, window, chunks)
    return _stepper(len(frames), lambda upto: plots_cache.draw_film(frames, upto))


def explore_blocks(
    make_tables: Callable[[], Any],
    num_blocks: int = 8,
    block_size: int = 4,
    steps: Sequence[tuple] = plots_paging.STEPS,
) -> VBox | Figure:
    """Step through the life of some sequences with block tables of your own, and see who holds which block.

    make_tables: makes the object of lesson 06, `BlockTables` or `SharedTables`, over a pool of num_blocks blocks.
    steps: ("append", "A", 5), ("fork", "A", "C"), ("free", "A"), in any order.
    Returns a slider with the picture below it, or the picture of the last step where ipywidgets is missing.
    """
    frames = plots_paging.film_blocks(make_tables, steps)
    return _stepper(len(frames), lambda upto: plots_paging.draw_blocks(frames[upto - 1], num_blocks, block_size))


def explore_sizing(model: str = "llama-3-8b", gpu: str = "H100") -> VBox | Figure:
    """Choose a model, a GPU, a context, a batch, a format and a number of GPUs; see what fits and what binds.

    model: a name of `kvlib.sizing.models.names()`, gpu: one of `kvlib.sizing.gpus`: where the controls begin.
    Returns the picture of that beginning, at 8 sequences of 8,192 tokens, where ipywidgets is missing.
    """
    from kvlib.plots_sizing import draw_plan
    from kvlib.sizing.gpus import GPUS
    from kvlib.sizing.models import load_config, names
    from kvlib.sizing.plan import make_plan

    def draw(model: str, gpu: str, context: int, batch: int, kv_dtype: str, tp: int) -> Figure:
        try:
            settings: dict[str, Any] = {"context": context, "batch": batch, "kv_dtype": kv_dtype, "tp": tp}
            return draw_plan(make_plan(load_config(model), gpu, name=model, **settings))
        except ValueError as error:  # such as 3 GPUs for 8 KV heads
            figure = new_figure(width=9.0, height=1.2)
            figure.text(0.02, 0.5, str(error), va="center", wrap=True)
            return described(figure, str(error))

    still = draw(model, gpu, 8192, 8, "bf16", 1)
    try:
        import ipywidgets
    except ImportError:
        return still
    slider = ipywidgets.SelectionSlider
    powers = [1 << n for n in range(9, 18)]
    controls = [
        ipywidgets.Dropdown(options=names(), value=model, description="model"),
        ipywidgets.Dropdown(options=[known.name for known in GPUS], value=gpu, description="GPU"),
        slider(options=[(f"{n:,}", n) for n in powers], value=8192, description="context"),
        slider(options=[1 << n for n in range(11)], value=8, description="batch"),
        slider(options=["bf16", "fp8", "int4"], value="bf16", description="cache in"),
        slider(options=[1, 2, 4, 8, 16], value=1, description="GPUs (TP)"),
    ]
    return with_picture(controls, lambda: draw(*(control.value for control in controls)), still)


def _stepper(steps: int, draw: Callable[[int], Figure]) -> VBox | Figure:
    """A slider from 1 to `steps` over `draw(upto)`."""
    everything = draw(steps)
    try:
        import ipywidgets
    except ImportError:
        return everything
    slider = ipywidgets.IntSlider(value=1, min=1, max=steps, description="steps")
    return with_picture([slider], lambda: draw(slider.value), everything)


def with_picture(controls: Sequence[Any], draw: Callable[[], Figure], still: Figure) -> VBox:
    """A box of controls over a picture, drawn again when one of them moves. `still` is for pages without widgets."""
    import ipywidgets

    picture = ipywidgets.HTML()

    def redraw(change: Any = None) -> None:
        picture.value = as_html(draw())

    for control in controls:
        control.observe(redraw, names="value")
    redraw()
    box = ipywidgets.VBox([*controls, picture])
    words = still.alt  # type: ignore[attr-defined]  # `described` has set it
    fallback = {"image/png": png(still), "text/plain": words}
    box._repr_mimebundle_ = lambda **kwargs: type(box)._repr_mimebundle_(box, **kwargs) | fallback
    return box
