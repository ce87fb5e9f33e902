"""Networks, their training, and ensembles on disk.

This package uses torch. Of our packages it imports only `smoothcert`.
"""
