"""What a submission may use."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of one worker with everything that it starts. Each is generous for a student and small for a machine."""

    memory: int = 2048 * MIB  # bytes; of each process by the kernel, of all together by watching them
    processes: int = 64
    threads: int = 160  # and processes; torch.set_num_threads(64) starts 80, and ends the process where it cannot
    cpu: int = 240  # seconds of each process
    file: int = 64 * MIB  # bytes of one file
    scratch: int = 128 * MIB  # bytes in /tmp
    shared: int = 64 * MIB  # bytes in /dev/shm
    files: int = 20_000  # in /tmp, and again in /dev/shm
    descriptors: int = 256
    output: int = 8 * MIB  # bytes printed while one cell or one check runs
    traffic: int = 128 * MIB  # bytes sent to the judge while one exercise is checked
    cell_seconds: float = 30.0
    total_seconds: float = 240.0  # for the whole notebook

    def kept_by_the_kernel(self) -> dict[str, int]:
        """Those that the worker sets on itself before it runs anything."""
        names = ("memory", "threads", "cpu", "file", "descriptors")
        return {name: getattr(self, name) for name in names}
