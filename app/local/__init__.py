"""The whole service on one machine, for `make serve`: an embedded Valkey, the API and a worker."""
