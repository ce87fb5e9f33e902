"""The way of a certification request: `submission` reads it, `admission` and `images` check it, `intake` queues it."""
