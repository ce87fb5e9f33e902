"""Attestations: certificates with a signature, so that a stranger can tell who vouches for them.

keys.py       public keys and their validity, as a service publishes them
statement.py  what is signed: an in-toto Statement v1 about an input and the members of an ensemble
envelope.py   a DSSE envelope as a text: written in one way, and read in no other
signing.py    signing and checking, with the extra `attest`; keyring.py is the secret of a signer

Only the last two need the extra.
"""
