"""The OpenAPI document, its examples, and the HTTP reference that is generated from it."""
