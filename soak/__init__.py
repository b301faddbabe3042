"""Random tasks, data, solvers and faults for as long as there is time: `python -m soak --minutes 10`."""
