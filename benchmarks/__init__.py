"""What we measure: `python -m benchmarks NAME`, with the resulting tables in `results/`."""
