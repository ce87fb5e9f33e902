"""Training of base classifiers that withstand noise: one shared loop, one file for each method."""
