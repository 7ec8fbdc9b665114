"""`kvlib size` as a person meets it: what it prints, its exit status, and one sentence where the input is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kvlib
from kvlib.cli import main, tokens
from kvlib.sizing.gpus import GPUS
from kvlib.sizing.models import load_config, names
from kvlib.sizing.plan import Plan, make_plan

ROOT = Path(kvlib.__file__).parents[1]


def run(*words):
    command = [sys.executable, "-m", "kvlib", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_in_a_process_of_its_own():
    done = run("size", "llama-3-8b", "--gpu", "h100", "--context", "32k", "--batch", "13", "--reserve", "4 GB")
    assert (done.returncode, done.stderr) == (0, "")
    assert "32,768 tokens" in done.stdout and "4.29 GB (4.00 GiB)" in done.stdout and "Assumptions" in done.stdout


def test_wrong_input_in_a_process_of_its_own():
    done = run("size", "llama-3-8b", "--gpu", "H1000")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"kvlib size: no GPU 'H1000' in the table: there are {', '.join(gpu.name for gpu in GPUS)}\n"


def test_needs_neither_numpy_nor_torch():
    code = "import sys; from kvlib.cli import main; main(['size', '--list']);"
    code += "print(sorted({'numpy', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_list_names_all(capsys):
    assert main(["size", "--list"]) == 0
    words = capsys.readouterr().out.split()
    assert set(names()) <= set(words) and {gpu.name for gpu in GPUS} <= set(words)


SETTING = ["--gpu", "a100-80gb", "--tp", "4", "--context", "8,192", "--batch", "3", "--kv-dtype", "int4"]
SETTING += ["--kv-group", "64", "--weights-dtype", "int8", "--weights-group", "256", "--block-size", "32"]
SETTING += ["--utilisation", "0.8", "--reserve", "1.5 GiB", "--json"]


def test_every_option_arrives(capsys):
    assert main(["size", "llama-3-70b", *SETTING]) == 0
    wanted = make_plan(
        load_config("llama-3-70b"),
        "A100-80GB",
        name="llama-3-70b",
        tp=4,
        context=8192,
        batch=3,
        kv_dtype="int4",
        kv_group=64,
        weights_dtype="int8",
        weights_group=256,
        block_size=32,
        utilisation=0.8,
        reserve_bytes=3 * 2**29,
    )
    assert Plan.from_dict(json.loads(capsys.readouterr().out)) == wanted


def test_two_configs(capsys):
    assert main(["size", "llama-2-7b", "llama-3-8b"]) == 0
    assert "0.25 x" in capsys.readouterr().out  # GQA with a quarter of the heads
    assert main(["size", "llama-2-7b", "llama-3-8b", "--json"]) == 0
    assert [values["model"] for values in json.loads(capsys.readouterr().out)] == ["llama-2-7b", "llama-3-8b"]


@pytest.mark.parametrize("given", ["config.json", ""])
def test_reads_a_file_or_the_one_in_a_folder(tmp_path, capsys, given):
    (tmp_path / "config.json").write_text(json.dumps(load_config("qwen2.5-7b")), encoding="utf-8")
    assert main(["size", str(tmp_path / given), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kv_bytes_per_token"] == 57_344


def refused(capsys, *words):
    try:
        status = main([*words])
    except SystemExit as left:  # argparse leaves by itself
        status = left.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("kvlib") and err.count("\n") == 1 and err.endswith("\n") and "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "command"),
        (["sized"], "invalid choice: 'sized'"),
        (["size"], "one CONFIG, or two"),
        (["size", "a", "b", "c"], "got 3"),
        (["size", "nope"], "no model 'nope' comes with the course: there are deepseek-67b"),
        (["size", "no/such/config.json"], "there is no file no/such/config.json"),
        (["size", "nope.json"], "there is no file nope.json"),
        (["size", "llama-3-8b", "--tp", "3"], "3 GPUs do not divide"),
        (["size", "llama-3-8b", "--tp", "two"], "--tp"),
        (["size", "llama-3-8b", "--context", "0"], "a context is a whole number of tokens"),
        (["size", "llama-3-8b", "--context", "1.0001k"], "a context is a whole number of tokens"),
        (["size", "llama-3-8b", "--context", "4kB"], "a context is a whole number of tokens"),
        (["size", "llama-3-8b", "--context", "9" * 5000], "4300 digits"),
        (["size", "llama-3-8b", "--batch", "0"], "batch must be"),
        (["size", "llama-3-8b", "--batch", "1" + "0" * 400], "too large"),
        (["size", "llama-3-8b", "--kv-dtype", "fp4"], "no number format 'fp4': there are fp32, bf16"),
        (["size", "llama-3-8b", "--kv-group", "32"], "bf16 has no groups"),
        (["size", "llama-3-8b", "--utilisation", "90"], "above 0 and at most 1, got 90.0"),
        (["size", "llama-3-8b", "--reserve", "4 Gb"], "no unit 'Gb'"),
        (["size", "llama-3-8b", "--reserve=-4 GB"], "-4 GB"),
        (["size", "llama-3-8b", "--frobnicate"], "--frobnicate"),
    ],
)
def test_wrong_input_is_one_sentence(capsys, words, says):
    assert says in refused(capsys, *words)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "holds a list"),
        (b"{}", "model_type is None, and only deepseek_v2"),
        (b'{"model_type": "mamba"}', "'mamba'"),
        (b'{"model_type": "llama"}', "no hidden_size"),
    ],
)
def test_a_file_that_is_no_config(tmp_path, capsys, content, says):
    (tmp_path / "config.json").write_bytes(content)
    assert says in refused(capsys, "size", str(tmp_path / "config.json"))


def test_a_folder_without_a_config(tmp_path, capsys):
    assert f"there is no file {tmp_path / 'config.json'}" in refused(capsys, "size", str(tmp_path))


def test_a_batch_of_any_size_takes_no_memory(capsys):
    assert main(["size", "llama-3-8b", "--batch", "1" + "0" * 15, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["binds"] == "memory capacity"


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("4,096", 4096), ("4k", 4096), ("128K", 131_072), ("1m", 2**20), ("0.5k", 512), (" 8_192 ", 8192)],
)
def test_tokens(text, count):
    assert tokens(text) == count
