"""The paper's experiments: all tables and figures are computed from logits that are recorded once."""
