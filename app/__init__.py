"""The HTTP API of the service, and the command that runs the whole service on one machine. It never imports torch.

main.py      puts the application together; service.py is what its routes share
routes/      one file for each group of operations
http/        what every request passes: protocol, middleware, authentication, body, headers, errors
requests/    from a posted body to a place in the queue
redis/       certifications, workers and ensembles, as Redis has them
answers/     certifications as JSON and as event streams
archive/     certifications that have ended, kept in a folder or a bucket
webhooks/    signed messages about the end of certifications
docs/        the OpenAPI document and the HTTP reference
local/       `make serve`: an embedded Valkey, the API and a worker in one terminal
page/        the page: HTML, CSS and ES modules

Several of these share settings, logs, metrics, executor, samples, keygen, background and recurring.
"""
