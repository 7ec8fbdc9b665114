"""Decode attention over a paged KV cache on a GPU: a Triton kernel, the same in PyTorch, and how both are checked.

`capability` says what this machine can run, `paged_decode` and `torch_decode` attend, `lab` measures, and `own_kernel`
turns a reader's function into a kernel. Only `kernel` needs Triton. `python -m kvlib.gpu.interpret` checks the kernel
without a GPU, `python -m kvlib.gpu.aot` compiles it.

The kernel has run in Triton's interpreter and through its compiler, and on no GPU yet. So no measured figures are
shipped; `python tests/gpu/measure.py` makes them where there is one.
"""
