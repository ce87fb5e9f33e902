"""Members that run elsewhere: an endpoint of the Open Inference Protocol, version 2, as base classifier.

endpoint.py      where a model is served, and what it takes and gives
messages.py      requests and answers of the protocol, with binary tensors
connection.py    one exchange at a time over HTTP, within a time limit
member.py        the network that asks the endpoint
"""
