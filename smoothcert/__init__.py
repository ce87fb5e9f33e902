"""smoothcert: prove that a classifier's answer on an image cannot be flipped by a small perturbation."""

__version__ = "0.1.0"
