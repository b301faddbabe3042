"""Threads, shards and Dask workers that divide the examples."""
