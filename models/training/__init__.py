"""Training of base classifiers that withstand noise: one shared loop, and one file for each method."""
