"""Networks, voting, K-consensus and the registry of ensembles.

This package may use torch; of ours it imports only `smoothcert`.
"""
