"""`kvlib size`: what a model's cache takes on a GPU, what fits, and how fast a decode step can be."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from kvlib.sizing import compare, report
from kvlib.sizing.architecture import architecture
from kvlib.sizing.formats import FORMATS
from kvlib.sizing.gpus import GPUS
from kvlib.sizing.models import load_config, names
from kvlib.sizing.plan import make_plan
from kvlib.sizing.units import show, size_in_bytes

THOUSANDS = {"": 1, "k": 1024, "m": 1024**2}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence to stderr and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 2, with a sentence on stderr, for input that makes no sense."""
    parser = Parser(prog="kvlib", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command", parser_class=Parser)
    _add_size(commands)
    arguments = parser.parse_args(argv)
    try:
        print(arguments.run(arguments), flush=True)
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the last flush would complain
        return 1
    except OverflowError:
        print(f"kvlib {arguments.command}: a number is too large to calculate with", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"kvlib {arguments.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _add_size(commands: Any) -> None:
    add = commands.add_parser("size", help="size one model, or two side by side", description=__doc__).add_argument
    formats = ", ".join(fmt.name for fmt in FORMATS)
    add("configs", nargs="*", metavar="CONFIG", help="a config.json, or the name of a model that comes with the course")
    add("--list", action="store_true", help="name the models and the GPUs, and stop")
    add("--gpu", default="H100", help="a GPU of the table (default: %(default)s)")
    add("--tp", type=int, default=1, help="GPUs that share the model by tensor parallelism (default: %(default)s)")
    add("--context", default="4k", help="tokens of each sequence; 4k is 4,096 (default: %(default)s)")
    add("--batch", type=int, default=1, help="sequences in a decode step (default: %(default)s)")
    add("--kv-dtype", default="bf16", help=f"one of {formats} (default: %(default)s)")
    add("--weights-dtype", default="bf16", help="one of the same (default: %(default)s)")
    add("--kv-group", type=int, help="elements that share a scale, for int8 and int4 caches")
    add("--weights-group", type=int, help="the same for weights")
    add("--block-size", type=int, default=16, help="tokens in a block of cache (default: %(default)s)")
    add("--utilisation", type=float, default=0.9, help="part of the memory that may be used (default: %(default)s)")
    add("--reserve", default="0 B", help='kept free on each GPU, such as "4 GB" or "2 GiB" (default: %(default)s)')
    add("--json", action="store_true", help="print JSON: an object, or a list of two")
    commands.choices["size"].set_defaults(run=size)


def size(arguments: argparse.Namespace) -> str:
    """What `kvlib size` prints. Raises ValueError unless there are one or two configs."""
    if arguments.list:
        return listing()
    if not 1 <= len(arguments.configs) <= 2:
        raise ValueError(f"one CONFIG, or two to compare; got {len(arguments.configs)} (--list names what there is)")
    plans = [
        make_plan(
            read(config),
            arguments.gpu,
            name=config,
            tp=arguments.tp,
            context=tokens(arguments.context),
            batch=arguments.batch,
            weights_dtype=arguments.weights_dtype,
            kv_dtype=arguments.kv_dtype,
            weights_group=arguments.weights_group,
            kv_group=arguments.kv_group,
            utilisation=arguments.utilisation,
            reserve_bytes=size_in_bytes(arguments.reserve),
            block_size=arguments.block_size,
        )
        for config in arguments.configs
    ]
    if arguments.json:
        return report.as_json(*plans)
    return report.as_text(*plans) if len(plans) == 1 else compare.as_table(*plans)


def read(config: str) -> dict[str, Any]:
    """A config.json, the one in a folder, or that of a shipped model. ValueError says what is wrong with it."""
    path = Path(config)
    if path.is_dir():
        path /= "config.json"
    if not path.is_file():
        if path.suffix == ".json" or len(path.parts) > 1:
            raise ValueError(f"there is no file {path}")
        return load_config(config)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}, and a config.json holds an object")
    return found


def tokens(text: str) -> int:
    """A number of tokens: 4096, 4,096 or 4k; k is 1,024 and m 1,024 k, as contexts are named.

    Raises ValueError for what is no whole number of at least 1.

    >>> tokens("32k"), tokens("8,192")
    (32768, 8192)
    """
    match = re.fullmatch(r"([0-9][0-9,_]*(?:\.[0-9]+)?)\s*([km]?)", text.strip().lower())
    count = Fraction(re.sub("[,_]", "", match[1])) * THOUSANDS[match[2]] if match else Fraction(0)
    if count < 1 or count.denominator != 1:
        raise ValueError(f"a context is a whole number of tokens, such as 4096 or 32k, got {text!r}")
    return int(count)


def listing() -> str:
    """The models and the GPUs, a line each."""
    lines = ["Models"]
    for name in names():
        model = architecture(load_config(name))
        lines.append(f"  {name:<18}  {model.model_type:<11}  {model.parameters / 1e9:>7.2f} billion parameters")
    lines += ["", "GPUs"]
    for gpu in GPUS:
        fp8 = "no FP8" if gpu.fp8_flops is None else f"{gpu.fp8_flops / 1e12:,.0f} in FP8"
        speed = f"{gpu.bandwidth / 1e9:>5,.0f} GB/s  {gpu.flops / 1e12:>5,.0f} TFLOP/s in 16 bit, {fp8}"
        lines.append(f"  {gpu.name:<10}  {show(gpu.memory):<24}  {speed}")
    return "\n".join(lines)
