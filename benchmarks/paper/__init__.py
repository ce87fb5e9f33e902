"""The experiments of the paper: certified accuracy, samples per image, and what each member adds.

`accuracy`, `evaluate` and `samples` are benchmarks; the other modules serve `evaluate`.
"""
