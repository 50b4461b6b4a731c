"""How many threads a runtime gets where nobody says. Holds no pool: runtimes have their own."""

import os


def usable_cpus() -> int:
    """Count the CPUs that this process may use: on a machine that is shared, fewer than it has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
