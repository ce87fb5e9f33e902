"""The state that the API shares with the workers; `queue` is the only module of the API that talks to Redis."""
