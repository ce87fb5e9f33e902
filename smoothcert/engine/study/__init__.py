"""The paper's laboratory: record the logits of an ensemble once, and compute every table and figure from them."""
